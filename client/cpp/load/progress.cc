#include "client/cpp/load/progress.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/cpp/load/quantity_format.h"

namespace tessera::load {

std::string FormatProgress(const std::string& target, absl::Duration elapsed, absl::Duration since_last,
                           const Progress& progress, int64_t in_flight) {
  return absl::StrFormat(
      "%-7s %5.0f s %9.1f/s  in flight %5d  p50 %8s  p99 %8s  errors %d", target, absl::ToDoubleSeconds(elapsed),
      static_cast<double>(progress.ok) / absl::ToDoubleSeconds(since_last), in_flight, FormatLatency(progress.p50_ns),
      FormatLatency(progress.p99_ns), progress.failed + progress.dropped);
}

ProgressLine::ProgressLine(std::string target, const Dispatcher* dispatcher)
    : target_(std::move(target)), dispatcher_(dispatcher), thread_([this] { Run(); }) {}

ProgressLine::~ProgressLine() {
  done_.Notify();
  thread_.join();
}

void ProgressLine::Run() {
  const absl::Duration start = dispatcher_->clock()->Now();
  absl::Duration last = start;
  while (!done_.WaitForNotificationWithTimeout(absl::Seconds(1))) {
    const absl::Duration now = dispatcher_->clock()->Now();
    const std::string line = FormatProgress(target_, now - start, now - last, dispatcher_->recorder()->TakeProgress(),
                                            dispatcher_->in_flight());
    absl::FPrintF(stderr, "%s\n", line);
    last = now;
  }
}

}  // namespace tessera::load
