#include "client/cpp/load/quantity_format.h"

#include "absl/strings/str_format.h"

namespace tessera::load {
namespace {

std::string ThreeDigits(double value) {
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", digits, value);
}

}  // namespace

std::string FormatLatency(int64_t nanoseconds) {
  const auto value = static_cast<double>(nanoseconds);
  if (value < 999.5e3) return ThreeDigits(value / 1e3) + " us";
  if (value < 999.5e6) return ThreeDigits(value / 1e6) + " ms";
  return ThreeDigits(value / 1e9) + " s";
}

std::string FormatByteRate(double bytes_per_second) {
  if (bytes_per_second < 999.5e3) return ThreeDigits(bytes_per_second / 1e3) + " kB/s";
  if (bytes_per_second < 999.5e6) return ThreeDigits(bytes_per_second / 1e6) + " MB/s";
  return ThreeDigits(bytes_per_second / 1e9) + " GB/s";
}

std::string FormatTeraflops(double flops_per_second) {
  return flops_per_second > 0 ? absl::StrFormat("%.4f", flops_per_second / 1e12) : "-";
}

}  // namespace tessera::load
