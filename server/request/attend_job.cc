#include "server/request/attend_job.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/base/casts.h"
#include "absl/base/internal/raw_logging.h"

namespace tessera {
namespace {

// Sum of min(x, limit) over 0 <= x <= last.
double SumClamped(int64_t last, int64_t limit) {
  if (last < 0) return 0;
  const auto ramp = static_cast<double>(std::min(last, limit));
  const auto flat = static_cast<double>(std::max<int64_t>(last - limit, 0));
  return ramp * (ramp + 1) / 2 + flat * static_cast<double>(limit);
}

// Sum of clamp(first + i, 0, limit) over 0 <= i < count.
double SumClamped(int64_t first, int64_t count, int64_t limit) {
  return SumClamped(first + count - 1, limit) - SumClamped(first - 1, limit);
}

// Pairs (row, key) that the mask lets see each other: each row's visible keys end at clamp(p + right + 1) and begin at
// clamp(p - left), for positions p = kv_len - q_len + i.
double VisiblePairs(const Mask& mask, int64_t q_len, int64_t kv_len) {
  const int64_t first = kv_len - q_len;
  const int64_t reach = q_len + kv_len;  // a window this wide is unbounded
  const double ends = mask.right == Mask::kUnbounded
                          ? static_cast<double>(q_len) * static_cast<double>(kv_len)
                          : SumClamped(first + std::min(mask.right, reach) + 1, q_len, kv_len);
  const double begins =
      mask.left == Mask::kUnbounded ? 0 : SumClamped(first - std::min(mask.left, reach), q_len, kv_len);
  return ends - begins;
}

uint64_t Pack(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

// Lays the sequences' tensors end to end over the job's buffers.
class SequenceWalk {
 public:
  SequenceWalk(const AttendShape& shape, std::byte* input, std::byte* output)
      : params_(shape.params),
        q_(input),
        k_(input + shape.q_bytes),
        v_(k_ + shape.kv_bytes),
        o_(output),
        lse_(shape.return_lse ? output + shape.q_bytes : nullptr) {}

  SequenceView Next(int64_t q_len, int64_t kv_len) {
    const int64_t head_bytes = params_.head_dim * SizeOf(params_.dtype);
    const int64_t q_bytes = q_len * params_.q_heads * head_bytes;
    const int64_t kv_bytes = kv_len * params_.kv_heads * head_bytes;
    SequenceView view;
    view.q_len = q_len;
    view.kv_len = kv_len;
    view.q = std::exchange(q_, q_ + q_bytes);
    view.k = std::exchange(k_, k_ + kv_bytes);
    view.v = std::exchange(v_, v_ + kv_bytes);
    view.o = std::exchange(o_, o_ + q_bytes);
    if (lse_ != nullptr) {
      const int64_t lse_bytes = q_len * params_.q_heads * static_cast<int64_t>(sizeof(float));
      view.lse = reinterpret_cast<float*>(std::exchange(lse_, lse_ + lse_bytes));
    }
    view.q_strides = view.o_strides = Strides::Packed(params_.q_heads, params_.head_dim);
    view.k_strides = view.v_strides = Strides::Packed(params_.kv_heads, params_.head_dim);
    view.lse_strides = Strides::Packed(params_.q_heads, 1);
    return view;
  }

 private:
  const AttentionParams& params_;
  std::byte* q_;
  std::byte* k_;
  std::byte* v_;
  std::byte* o_;
  std::byte* lse_;
};

}  // namespace

AttendJob::AttendJob(Traits traits, AttendShape shape, StagingBuffer input, StagingBuffer output,
                     ByteBudget::Charge charge, DoneFn done)
    : Job(std::move(traits)),
      shape_(std::move(shape)),
      input_(std::move(input)),
      output_(std::move(output)),
      charge_(std::move(charge)),
      done_(std::move(done)) {
  ABSL_RAW_CHECK(static_cast<int64_t>(input_.size()) == shape_.input_bytes(), "input is as large as the shape says");
  ABSL_RAW_CHECK(static_cast<int64_t>(output_.size()) == shape_.output_bytes(), "output is as large as the shape says");
  SequenceWalk walk(shape_, input_.data(), output_.data());
  sequences_.reserve(shape_.q_lengths.size());
  for (size_t i = 0; i < shape_.q_lengths.size(); ++i) {
    sequences_.push_back(walk.Next(shape_.q_lengths[i], shape_.kv_lengths[i]));
  }
}

int64_t AttendJob::Cost(const AttendShape& shape) {
  constexpr double kMost = int64_t{1} << 60;
  double pairs = 0;
  for (size_t i = 0; i < shape.q_lengths.size(); ++i) {
    pairs += VisiblePairs(shape.params.mask, shape.q_lengths[i], shape.kv_lengths[i]);
  }
  const double flops = 4.0 * shape.params.head_dim * shape.params.q_heads * pairs;
  const auto bytes = static_cast<double>(shape.held_bytes());
  return static_cast<int64_t>(std::clamp(flops + kFlopsPerByte * bytes, 1.0, kMost));
}

BatchKey AttendJob::Key(const AttentionParams& params) {
  static_assert(sizeof(AttentionParams) == 48, "a new parameter belongs in the key");
  BatchKey key;
  key.words[0] = Pack(static_cast<uint32_t>(params.q_heads), static_cast<uint32_t>(params.kv_heads));
  key.words[1] = Pack(static_cast<uint32_t>(params.head_dim), static_cast<uint32_t>(params.dtype));
  key.words[2] = Pack(absl::bit_cast<uint32_t>(params.scale), absl::bit_cast<uint32_t>(params.softcap));
  key.words[3] = static_cast<uint64_t>(params.mask.left);
  key.words[4] = static_cast<uint64_t>(params.mask.right);
  return key;
}

void AttendJob::OnDone(const absl::Status& status, State where) { std::exchange(done_, nullptr)(status, where); }

}  // namespace tessera
