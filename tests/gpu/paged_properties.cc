#include "tests/gpu/paged_properties.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "tests/gpu/device_paged_batch.h"

namespace tessera::gpu_test {
namespace {

struct Bits {
  std::vector<std::byte> o, lse;
  friend bool operator==(const Bits&, const Bits&) = default;
};

AttentionParams Params(DType dtype, int32_t head_dim = 128) {
  return {.dtype = dtype,
          .q_heads = 8,
          .kv_heads = 2,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
          .mask = Mask::Causal()};
}

std::vector<Bits> BitsOf(PagedBatch& batch) {
  std::vector<Bits> bits;
  for (size_t i = 0; i < batch.size(); ++i) {
    bits.push_back({batch.contiguous()[i].o.Bytes(), batch.contiguous()[i].lse.Bytes()});
  }
  return bits;
}

// What a call over `views` leaves in the batch's outputs; nothing where it is refused.
std::vector<Bits> BitsAfter(PagedAttentionBackend& backend, PagedBatch& batch, DevicePagedBatch& device,
                            absl::Span<const PagedSequence> views) {
  device.Reset();
  const absl::Status status = backend.Extend(batch.params(), views, nullptr, nullptr);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), std::vector<Bits>{};
  device.Read();
  return BitsOf(batch);
}

std::vector<Bits> BitsAfter(PagedAttentionBackend& backend, PagedBatch& batch) {
  DevicePagedBatch device(batch);
  return BitsAfter(backend, batch, device, device.views());
}

std::vector<PagedLengths> MixedLengths() {
  return {{1, 1700, 1}, {1, 3, 1},    {0, 40, 0},   {3, 600, 3},   {60, 300, 60},
          {1, 0, 0},    {16, 16, 16}, {9, 1100, 0}, {1, 30000, 1}, {4, 7000, 4}};
}

// Each sequence alone against all of them together with others; one sequence among 255.
std::string CheckBatchmates(PagedAttentionBackend& backend, std::mt19937_64& random) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    for (const bool fp8 : {false, true}) {
      std::vector<PagedLengths> lengths = MixedLengths();
      while (lengths.size() < 256) lengths.push_back({1, static_cast<int64_t>(random() % 1500), 0});
      PagedBatch batch(Params(dtype), {fp8 ? CacheDType::kFloat8 : CacheDTypeFor(dtype), 32}, lengths, random());
      DevicePagedBatch device(batch);
      const std::vector<Bits> together = BitsAfter(backend, batch, device, device.views());
      if (together.empty()) return "refused";
      for (size_t i = 0; i < 24; ++i) {
        const std::vector<Bits> alone = BitsAfter(backend, batch, device, {&device.views()[i], 1});
        if (alone.empty() || alone[i] != together[i]) return "sequence " + std::to_string(i) + " differs alone";
      }
    }
  }
  return "";
}

std::string CheckRepeats(PagedAttentionBackend& backend, std::mt19937_64& random) {
  for (const int32_t head_dim : {64, 128, 256}) {
    PagedBatch batch(Params(DType::kBFloat16, head_dim), {CacheDType::kBFloat16, 16}, MixedLengths(), random());
    DevicePagedBatch device(batch);
    const std::vector<Bits> first = BitsAfter(backend, batch, device, device.views());
    for (int repeat = 0; repeat < 10; ++repeat) {
      if (BitsAfter(backend, batch, device, device.views()) != first) return "d " + std::to_string(head_dim);
    }
  }
  return "";
}

std::string CheckPagesDoNotMatter(PagedAttentionBackend& backend, std::mt19937_64& random) {
  const uint64_t seed = random();
  const auto run = [&](int64_t page_tokens, PageLayout layout) {
    PagedBatch batch(Params(DType::kFloat16), {CacheDType::kFloat16, page_tokens, layout}, MixedLengths(), seed);
    return BitsAfter(backend, batch);
  };
  const std::vector<Bits> expected = run(64, PageLayout::kTokensOuter);
  for (const auto& [tokens, layout] : {std::pair<int64_t, PageLayout>{64, PageLayout::kHeadsOuter},
                                       {1, PageLayout::kTokensOuter},
                                       {16, PageLayout::kPadded},
                                       {4096, PageLayout::kTokensOuter}}) {
    if (run(tokens, layout) != expected) return "pages of " + std::to_string(tokens);
  }
  return "";
}

// Chunks of a prefill over pages that the forward kernels read, against the same over pages of one token, which are
// gathered. The last value is NaN, so that rows that do not see it are computed anew.
std::string CheckPagesDoNotMatterToChunks(PagedAttentionBackend& backend, std::mt19937_64& random) {
  for (const int32_t head_dim : {64, 96, 128, 256}) {
    for (const Mask mask : {Mask::Causal(), Mask::Full(), Mask::Window(333, 0)}) {
      const uint64_t seed = random();
      std::vector<PagedLengths> lengths = {{60, 300, 60}, {70, 129, 0}, {130, 1000, 130}};
      if (head_dim == 64 || head_dim == 128)
        lengths.push_back({50, 5000, 3});  // by tall tiles; by wide ones where all is seen
      const auto run = [&](int64_t page_tokens, PageLayout layout) {
        AttentionParams params = Params(DType::kBFloat16, head_dim);
        params.mask = mask;
        PagedBatch batch(params, {CacheDType::kBFloat16, page_tokens, layout}, lengths, seed);
        const float nan = std::numeric_limits<float>::quiet_NaN();
        for (int64_t head = 0; head < 2; ++head) batch.SetValueRow(1, lengths[1].kv_len - 1, head, nan);
        return BitsAfter(backend, batch);
      };
      const std::vector<Bits> expected = run(1, PageLayout::kTokensOuter);
      for (const auto& [tokens, layout] : {std::pair<int64_t, PageLayout>{2, PageLayout::kTokensOuter},
                                           {8, PageLayout::kTokensOuter},
                                           {16, PageLayout::kHeadsOuter},
                                           {32, PageLayout::kPadded},
                                           {64, PageLayout::kHeadsOuter},
                                           {256, PageLayout::kTokensOuter},
                                           {4096, PageLayout::kTokensOuter}}) {
        if (expected.empty() || run(tokens, layout) != expected) {
          return "d " + std::to_string(head_dim) + ", left " + std::to_string(mask.left) + ", right " +
                 std::to_string(mask.right) + ", pages of " + std::to_string(tokens);
        }
      }
    }
  }
  return "";
}

// Row by row, as decoding appends, against all at once: by the blocks that attend, and by a kernel of its own.
std::string CheckAppendedRowByRow(PagedAttentionBackend& backend, std::mt19937_64& random) {
  for (const CacheDType cached : {CacheDType::kBFloat16, CacheDType::kFloat8}) {
    for (const int64_t rows : {int64_t{1}, int64_t{9}}) {
      PagedBatch batch(Params(DType::kBFloat16), {cached, 16}, std::vector<PagedLengths>{{rows, 700, 700}}, random());
      DevicePagedBatch device(batch);
      const std::vector<Bits> at_once = BitsAfter(backend, batch, device, device.views());
      device.Reset();
      PagedSequence step = device.views()[0];
      const int64_t row = step.k_strides.token * SizeOf(DType::kBFloat16);
      for (int64_t token = 0; token < 700; ++token) {
        step.kv_len = token + 1;
        step.append_len = 1;
        const absl::Status status = backend.Extend(batch.params(), {&step, 1}, nullptr, nullptr);
        if (!status.ok()) return status.ToString();
        step.k = static_cast<const std::byte*>(step.k) + row;
        step.v = static_cast<const std::byte*>(step.v) + row;
      }
      device.Read();
      if (!batch.PagesAreAsExpected()) return "the pages differ";
      if (BitsOf(batch) != at_once) return "the results differ";
    }
  }
  return "";
}

// The last key is not finite: of a chunk, only the last row sees it.
std::string CheckUnseenRows(PagedAttentionBackend& backend, std::mt19937_64& random) {
  for (const CacheDType cached : {CacheDType::kFloat16, CacheDType::kFloat8}) {
    for (const int64_t rows : {int64_t{2}, int64_t{4}, int64_t{8}, int64_t{40}}) {
      for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        if (cached == CacheDType::kFloat8 && std::isinf(value)) continue;  // there is none
        for (const bool in_values : {false, true}) {
          PagedBatch batch(Params(DType::kFloat16), {cached, 16}, std::vector<PagedLengths>{{rows, 700, 0}}, random());
          for (int64_t head = 0; head < 2; ++head) {
            in_values ? batch.SetValueRow(0, 699, head, value) : batch.SetKeyRow(0, 699, head, value);
          }
          if (BitsAfter(backend, batch).empty()) return "refused";
          const TestSequence& actual = batch.contiguous()[0];
          for (int64_t head = 0; head < 8; ++head) {
            for (int64_t token = 0; token < rows - 1; ++token) {
              if (!std::isfinite(actual.o.Get(token, head, 0))) return "it reaches rows that do not see it";
            }
            if (std::isfinite(actual.o.Get(rows - 1, head, 0))) return "it does not reach the row that sees it";
          }
        }
      }
    }
  }
  return "";
}

// Pages 2^29 elements apart.
std::string CheckFarApart(PagedAttentionBackend& backend, std::mt19937_64& random) {
  constexpr int64_t kStride = int64_t{1} << 29;
  constexpr int32_t kPages = 16;
  const DeviceBuffer memory(kPages * kStride * 2);
  const DeviceBuffer table(3 * sizeof(int32_t));
  table.Upload(std::vector<int32_t>{kPages - 1, 0, 9});
  for (const int64_t rows : {int64_t{1}, int64_t{20}}) {
    PagedBatch batch(Params(DType::kBFloat16), {CacheDType::kBFloat16, 16}, std::vector<PagedLengths>{{rows, 40, 40}},
                     random());
    DevicePagedBatch device(batch);
    const std::vector<Bits> expected = BitsAfter(backend, batch, device, device.views());
    device.Reset();
    PagedSequence far = device.views()[0];
    far.pages = {table.as<int32_t>(), 3};
    far.layer.k_pages = memory.as<void>();
    far.layer.v_pages = memory.as<uint16_t>() + kStride / 2;
    PagedParams params = batch.params();
    params.page_stride = kStride;
    const absl::Status status = backend.Extend(params, {&far, 1}, nullptr, nullptr);
    if (!status.ok()) return status.ToString();
    device.Read();
    if (BitsOf(batch) != expected) return std::to_string(rows) + " rows differ";
  }
  return "";
}

}  // namespace

std::vector<PagedProperty> PagedProperties() {
  return {{"batchmates do not matter", &CheckBatchmates},
          {"repeats are bitwise equal", &CheckRepeats},
          {"pages do not matter", &CheckPagesDoNotMatter},
          {"pages do not matter to chunks", &CheckPagesDoNotMatterToChunks},
          {"appended row by row", &CheckAppendedRowByRow},
          {"rows that are not seen do not reach", &CheckUnseenRows},
          {"pages far apart", &CheckFarApart}};
}

}  // namespace tessera::gpu_test
