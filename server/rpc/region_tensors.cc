#include "server/rpc/region_tensors.h"

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {
namespace {

struct Field {
  absl::string_view name;
  const v1::RegionTensor& tensor;
  int64_t bytes;  // that the shape needs
  bool output;
  std::byte** place;
};

bool Overlap(absl::Span<const std::byte> a, absl::Span<const std::byte> b) {
  const std::less<> before;  // of pointers into different arrays, too
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

absl::Status CheckSize(const Field& field) {
  if (field.tensor.bytes() == static_cast<uint64_t>(field.bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field.name, ".bytes: ", field.tensor.bytes(), ", the header's shape needs ", field.bytes));
}

// The tensor's bytes in `memory`. REQUIRES: CheckSize.
absl::StatusOr<absl::Span<std::byte>> Cut(const Field& field, absl::Span<std::byte> memory) {
  const uint64_t offset = field.tensor.offset();
  const uint64_t bytes = field.tensor.bytes();
  if (offset % kTensorAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, ".offset: ", offset, " is not a multiple of ", kTensorAlignment));
  }
  if (offset > memory.size() || bytes > memory.size() - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, ": ", bytes, " bytes at ", offset, " reach beyond the region's ", memory.size()));
  }
  return memory.subspan(offset, bytes);
}

}  // namespace

absl::StatusOr<ResolvedTensors> ResolveTensors(const v1::AttendRegions& call, const AttendShape& shape,
                                               const RegionTable& regions) {
  ResolvedTensors resolved;
  TensorPlaces& places = resolved.places;
  const std::array<Field, 5> fields = {{
      {"q", call.q(), shape.q_bytes, false, &places.q},
      {"k", call.k(), shape.kv_bytes, false, &places.k},
      {"v", call.v(), shape.kv_bytes, false, &places.v},
      {"o", call.o(), shape.q_bytes, true, &places.o},
      {"lse", call.lse(), shape.lse_bytes, true, &places.lse},
  }};
  std::array<absl::Span<const std::byte>, fields.size()> spans;
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    if (absl::Status size = CheckSize(field); !size.ok()) return size;
    if (field.bytes == 0) continue;
    const auto found = regions.find(field.tensor.region());
    if (found == regions.end()) return absl::NotFoundError(absl::StrCat(field.name, ".region: no such region"));
    const std::shared_ptr<MemoryRegion>& region = found->second;
    const absl::StatusOr<absl::Span<std::byte>> span = Cut(field, region->memory());
    if (!span.ok()) return span.status();
    if (!resolved.regions.empty()) {
      const MemoryRegion& first = *resolved.regions.front();
      if (region->kind() != first.kind() || region->device() != first.device()) {
        return absl::InvalidArgumentError(absl::StrCat(
            field.name, ".region: in memory of another kind, or another device's, than the tensors before"));
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (field.output && Overlap(*span, spans[j])) {
        return absl::InvalidArgumentError(absl::StrCat(field.name, ": overlaps ", fields[j].name));
      }
    }
    spans[i] = *span;
    *field.place = span->data();
    resolved.regions.push_back(region);
  }
  if (!resolved.regions.empty()) {
    const MemoryRegion& first = *resolved.regions.front();
    resolved.device = first.device();
    places.on_device = first.kind() == RegionKind::kCudaMemory;
    resolved.memory = places.on_device ? RegionMemory::kCudaMemory : RegionMemory::kSharedMemory;
  }
  return resolved;
}

}  // namespace tessera
