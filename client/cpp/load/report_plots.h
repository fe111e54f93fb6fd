// The plots of the HTML report.
#ifndef TESSERA_CLIENT_CPP_LOAD_REPORT_PLOTS_H_
#define TESSERA_CLIENT_CPP_LOAD_REPORT_PLOTS_H_

#include "client/cpp/load/report.h"
#include "client/cpp/load/svg_plot.h"

namespace tessera::load {

// Latency against percentile, for each target and each shape of the first.
Plot PercentilePlot(const Report& report);

// p50, p99 and maximum of the first target in each interval, and p50 of the others.
Plot LatencyOverTimePlot(const Report& report);

// Answers and errors a second in each interval.
Plot ThroughputOverTimePlot(const Report& report);

// REQUIRES: the target has a ramp.
Plot RampThroughputPlot(const TargetReport& target);
Plot RampLatencyPlot(const TargetReport& target, const Report& report);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_REPORT_PLOTS_H_
