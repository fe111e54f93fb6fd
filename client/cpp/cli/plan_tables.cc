#include "client/cpp/cli/plan_tables.h"

#include "absl/strings/str_format.h"
#include "client/cpp/cli/byte_size.h"

namespace tessera {
namespace {

constexpr double kKilobyte = 1 << 10;
constexpr double kMegabyte = 1 << 20;

std::string FormatTrafficRow(const v1::TrafficRow& row) {
  const auto megabytes = [](uint64_t bytes) {
    return bytes == 0 ? std::string("-") : absl::StrFormat("%.0f", static_cast<double>(bytes) / kMegabyte);
  };
  return absl::StrFormat("  %-12s %14s %14s %12s %12s\n", row.operand(), megabytes(row.standard_read_bytes()),
                         megabytes(row.standard_write_bytes()), megabytes(row.tiled_read_bytes()),
                         megabytes(row.tiled_write_bytes()));
}

}  // namespace

std::string FormatPlan(const v1::PlanTilesRequest& request, const v1::PlanTilesResponse& plan) {
  std::string text = absl::StrFormat("On-chip memory of one tile, B = %d rows, d = %d, %s, %d stage%s\n", plan.tile(),
                                     request.head_dim(), DataTypeName(request.dtype()), request.stages(),
                                     request.stages() == 1 ? "" : "s");
  absl::StrAppendFormat(&text, "  %-12s %10s %10s\n", "component", "bytes", "KB");
  for (const v1::TileComponent& component : plan.components()) {
    absl::StrAppendFormat(&text, "  %-12s %10d %10.0f\n", component.name(), component.bytes(),
                          static_cast<double>(component.bytes()) / kKilobyte);
  }
  absl::StrAppendFormat(&text, "  %-12s %10d %10.0f  %s %s\n", "total", plan.total_bytes(),
                        static_cast<double>(plan.total_bytes()) / kKilobyte, plan.fits() ? "fits in" : "above",
                        FormatBytes(request.sram_bytes()));

  absl::StrAppendFormat(&text, "\nTraffic of one head, N = %d, in MB\n", request.sequence_length());
  absl::StrAppendFormat(&text, "  %-12s %14s %14s %12s %12s\n", "operand", "standard read", "standard write",
                        "tiled read", "tiled write");
  v1::TrafficRow total;
  total.set_operand("total");
  for (const v1::TrafficRow& row : plan.traffic()) {
    text += FormatTrafficRow(row);
    total.set_standard_read_bytes(total.standard_read_bytes() + row.standard_read_bytes());
    total.set_standard_write_bytes(total.standard_write_bytes() + row.standard_write_bytes());
    total.set_tiled_read_bytes(total.tiled_read_bytes() + row.tiled_read_bytes());
    total.set_tiled_write_bytes(total.tiled_write_bytes() + row.tiled_write_bytes());
  }
  text += FormatTrafficRow(total);
  absl::StrAppendFormat(&text, "\nArithmetic of one head: %.2f GFLOP\n", plan.flops() * 1e-9);
  return text;
}

std::string DataTypeName(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      return "float32";
    case v1::DATA_TYPE_FLOAT16:
      return "float16";
    case v1::DATA_TYPE_BFLOAT16:
      return "bfloat16";
    case v1::DATA_TYPE_FLOAT8_E4M3:
      return "float8_e4m3";
    default:
      return "unspecified";
  }
}

v1::DataType DataTypeNamed(const std::string& name) {
  for (const v1::DataType dtype : {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16}) {
    if (name == DataTypeName(dtype)) return dtype;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

}  // namespace tessera
