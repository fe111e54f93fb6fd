#include "kernels/reference/reference.h"

#include "kernels/dtype_dispatch.h"
#include "kernels/mask.h"
#include "kernels/reference/attend_row.h"
#include "kernels/traffic_model.h"

namespace tessera {
namespace {

template <typename T>
const T* Row(const void* tensor, const Strides& strides, int64_t token, int64_t head) {
  return static_cast<const T*>(tensor) + token * strides.token + head * strides.head;
}

// One query row: o [head_dim] and the row's LSE, over the keys it sees. `scores` is room for kv_len of them.
template <typename T>
double AttendRow(const AttentionParams& params, const SequenceView& sequence, int64_t token, int64_t head,
                 std::vector<double>& scores, double* o) {
  const KeyRange keys = MaskGeometry(params.mask, sequence.q_len, sequence.kv_len).VisibleTo(token);
  const int64_t kv_head = head / (params.q_heads / params.kv_heads);
  const T* q = Row<T>(sequence.q, sequence.q_strides, token, head);
  const T* k = static_cast<const T*>(sequence.k) + kv_head * sequence.k_strides.head;
  const T* v = static_cast<const T*>(sequence.v) + kv_head * sequence.v_strides.head;
  return AttendRow(
      params, keys, [q](int c) { return static_cast<double>(ToFloat(q[c])); },
      [&](int64_t key, int c) { return static_cast<double>(ToFloat(k[key * sequence.k_strides.token + c])); },
      [&](int64_t key, int c) { return static_cast<double>(ToFloat(v[key * sequence.v_strides.token + c])); }, scores,
      o);
}

class ReferenceBackend final : public AttentionBackend {
 public:
  absl::string_view name() const override { return "reference"; }

  absl::Status Forward(const AttentionParams& params, absl::Span<const SequenceView> sequences, StreamHandle,
                       ForwardStats* stats) override {
    if (absl::Status status = ValidateBatch(params, sequences); !status.ok()) return status;
    ForwardStats total;
    for (const SequenceView& sequence : sequences) {
      const ReferenceOutput output = AttendInDouble(params, sequence);
      DispatchDType(params.dtype, [&](auto element) { Store<decltype(element)>(params, sequence, output); });
      // A row is a block of its own here, so that K and V are read once a row; nothing is counted in tiles.
      total.flops += ForwardFlops(params, sequence);
      total.hbm_bytes += ForwardBytes(params, sequence, 1);
    }
    if (stats != nullptr) *stats = total;
    return absl::OkStatus();
  }

 private:
  template <typename T>
  static void Store(const AttentionParams& params, const SequenceView& sequence, const ReferenceOutput& output) {
    const double* o = output.o.data();
    const double* lse = output.lse.data();
    for (int64_t token = 0; token < sequence.q_len; ++token) {
      for (int64_t head = 0; head < params.q_heads; ++head, o += params.head_dim, ++lse) {
        T* to = static_cast<T*>(sequence.o) + token * sequence.o_strides.token + head * sequence.o_strides.head;
        for (int c = 0; c < params.head_dim; ++c) to[c] = FromFloat<T>(static_cast<float>(o[c]));
        if (sequence.lse == nullptr) continue;
        sequence.lse[token * sequence.lse_strides.token + head * sequence.lse_strides.head] = static_cast<float>(*lse);
      }
    }
  }
};

}  // namespace

ReferenceOutput AttendInDouble(const AttentionParams& params, const SequenceView& sequence) {
  const int64_t rows = sequence.q_len * params.q_heads;
  ReferenceOutput output{.o = std::vector<double>(rows * params.head_dim), .lse = std::vector<double>(rows)};
  std::vector<double> scores(sequence.kv_len);
  DispatchDType(params.dtype, [&](auto element) {
    using T = decltype(element);
    for (int64_t row = 0; row < rows; ++row) {
      output.lse[row] = AttendRow<T>(params, sequence, row / params.q_heads, row % params.q_heads, scores,
                                     output.o.data() + row * params.head_dim);
    }
  });
  return output;
}

std::unique_ptr<AttentionBackend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace tessera
