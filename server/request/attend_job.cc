#include "server/request/attend_job.h"

#include <cstddef>
#include <utility>

#include "absl/base/casts.h"
#include "absl/base/internal/raw_logging.h"

namespace tessera {
namespace {

uint64_t Pack(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

// Lays the sequences end to end over the call's tensors.
class SequenceWalk {
 public:
  SequenceWalk(const AttendShape& shape, const TensorPlaces& places)
      : params_(shape.params), q_(places.q), k_(places.k), v_(places.v), o_(places.o), lse_(places.lse) {}

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
    : DeviceJob(std::move(traits), shape.params.dtype, JobKind::kAttend),
      shape_(std::move(shape)),
      input_(std::move(input)),
      output_(std::move(output)),
      charge_(std::move(charge)),
      done_(std::move(done)) {
  ABSL_RAW_CHECK(static_cast<int64_t>(input_.size()) == shape_.input_bytes(), "input is as large as the shape says");
  ABSL_RAW_CHECK(static_cast<int64_t>(output_.size()) == shape_.output_bytes(), "output is as large as the shape says");
  std::byte* const k = input_.data() + shape_.q_bytes;
  MakeSequences({.q = input_.data(),
                 .k = k,
                 .v = k + shape_.kv_bytes,
                 .o = output_.data(),
                 .lse = shape_.return_lse ? output_.data() + shape_.q_bytes : nullptr,
                 .lease = nullptr});
}

AttendJob::AttendJob(Traits traits, AttendShape shape, TensorPlaces places, ByteBudget::Charge charge, DoneFn done)
    : DeviceJob(std::move(traits), shape.params.dtype, JobKind::kAttend),
      shape_(std::move(shape)),
      places_(std::move(places)),
      charge_(std::move(charge)),
      done_(std::move(done)) {
  MakeSequences(places_);
}

void AttendJob::MakeSequences(const TensorPlaces& places) {
  SequenceWalk walk(shape_, places);
  sequences_.reserve(shape_.q_lengths.size());
  for (size_t i = 0; i < shape_.q_lengths.size(); ++i) {
    sequences_.push_back(walk.Next(shape_.q_lengths[i], shape_.kv_lengths[i]));
  }
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

void AttendJob::OnEnded(const absl::Status& status, State where) { std::exchange(done_, nullptr)(status, where); }

}  // namespace tessera
