#include "kernels/cpu/append_rows.h"

#include <cstring>

#include "kernels/dtype_dispatch.h"
#include "kernels/float8.h"

namespace tessera {
namespace {

// One tensor's new rows, of element type T.
template <typename T>
class Appender {
 public:
  Appender(const PagedParams& params, const PagedSequence& sequence, const void* rows, const Strides& row_strides,
           void* pages, const float* scales)
      : params_(params),
        sequence_(sequence),
        rows_(static_cast<const T*>(rows)),
        row_strides_(row_strides),
        pages_(pages),
        scales_(scales) {}

  void Run() const {
    for (int64_t row = 0; row < sequence_.append_len; ++row) {
      for (int64_t head = 0; head < params_.attention.kv_heads; ++head) {
        const int64_t to = Offset(sequence_.kv_len - sequence_.append_len + row, head);
        StoreRow(rows_ + row * row_strides_.token + head * row_strides_.head, head, to);
      }
    }
  }

 private:
  int64_t Offset(int64_t token, int64_t head) const {
    return sequence_.pages[token / params_.page_tokens] * params_.page_stride +
           token % params_.page_tokens * params_.strides.token + head * params_.strides.head;
  }

  void StoreRow(const T* from, int64_t head, int64_t to) const {
    const int64_t width = params_.attention.head_dim;
    if (params_.cache_dtype != CacheDType::kFloat8) {
      std::memcpy(static_cast<T*>(pages_) + to, from, width * sizeof(T));
      return;
    }
    Float8* const stored = static_cast<Float8*>(pages_) + to;
    for (int64_t c = 0; c < width; ++c) stored[c] = ToFloat8(ToFloat(from[c]) / scales_[head]);
  }

  const PagedParams& params_;
  const PagedSequence& sequence_;
  const T* const rows_;
  const Strides row_strides_;
  void* const pages_;
  const float* const scales_;
};

}  // namespace

void AppendRows(const PagedParams& params, const PagedSequence& sequence) {
  DispatchDType(params.attention.dtype, [&](auto element) {
    using T = decltype(element);
    const PagedLayer& layer = sequence.layer;
    Appender<T>(params, sequence, sequence.k, sequence.k_strides, layer.k_pages, layer.k_scales).Run();
    Appender<T>(params, sequence, sequence.v, sequence.v_strides, layer.v_pages, layer.v_scales).Run();
  });
}

}  // namespace tessera
