// Latencies and byte rates for people: three significant digits and a unit.
#ifndef TESSERA_CLIENT_CPP_LOAD_QUANTITY_FORMAT_H_
#define TESSERA_CLIENT_CPP_LOAD_QUANTITY_FORMAT_H_

#include <cstdint>
#include <string>

namespace tessera::load {

// "412 us", "1.23 ms", "10.5 s".
std::string FormatLatency(int64_t nanoseconds);

// "1.23 GB/s"; decimal units.
std::string FormatByteRate(double bytes_per_second);

// "-" for none: a target that computes nothing.
std::string FormatTeraflops(double flops_per_second);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_QUANTITY_FORMAT_H_
