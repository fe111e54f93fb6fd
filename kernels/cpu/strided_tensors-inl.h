// The tensors of one key head of a sequence as the tiled forward reads and writes them: each with strides of its own.
#if defined(TESSERA_KERNELS_CPU_STRIDED_TENSORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_STRIDED_TENSORS_INL_H_
#undef TESSERA_KERNELS_CPU_STRIDED_TENSORS_INL_H_
#else
#define TESSERA_KERNELS_CPU_STRIDED_TENSORS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/attention.h"
#include "kernels/cpu/pack-inl.h"
#include "kernels/cpu/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {

// T is the element type of all of them. Rows are stacked rows (see StackedRows).
template <typename T>
class StridedTensors {
 public:
  StridedTensors(const AttentionParams& params, const SequenceView& sequence, int64_t kv_head)
      : sequence_(sequence), head_dim_(params.head_dim), kv_head_(kv_head), group_(params.q_heads / params.kv_heads) {}

  // panel [head_dim, stride] from rows first_row .. first_row + rows - 1 of Q, times `factor`.
  HWY_INLINE void PackQueries(int64_t first_row, int64_t rows, float factor, int64_t stride, float* panel) const {
    tessera::HWY_NAMESPACE::PackQueries(static_cast<const T*>(sequence_.q), Layout(sequence_.q_strides), first_row,
                                        rows, head_dim_, factor, stride, panel);
  }

  // k and v [end - begin, kKeyStride] from those keys. Returns whether all of V is finite.
  HWY_INLINE bool PackTile(int64_t begin, int64_t end, float* k, float* v) const {
    PackKeys(KeyRow(begin), sequence_.k_strides.token, end - begin, head_dim_, k);
    return PackKeys(ValueRow(begin), sequence_.v_strides.token, end - begin, head_dim_, v);
  }

  // Fetches keys begin .. end - 1 in `steps` steps; nothing where there are none.
  TilePrefetch Prefetch(int64_t begin, int64_t end, int64_t steps) const {
    if (begin >= end) return {};
    constexpr int64_t kElement = sizeof(T);
    return TilePrefetch(KeyRow(begin), sequence_.k_strides.token * kElement, ValueRow(begin),
                        sequence_.v_strides.token * kElement, head_dim_ * kElement, end - begin, steps);
  }

  // Rows of o from the columns of panel [head_dim, stride], each times its factor in `divide` [stride].
  HWY_INLINE void StoreOutputs(const float* panel, const float* divide, int64_t stride, int64_t first_row,
                               int64_t rows) const {
    UnpackOutputs(panel, divide, stride, Layout(sequence_.o_strides), first_row, rows, head_dim_,
                  static_cast<T*>(sequence_.o));
  }

  // From lse [rows]; nothing where it is not wanted.
  HWY_INLINE void StoreLse(const float* lse, int64_t first_row, int64_t rows) const {
    if (sequence_.lse == nullptr) return;
    const StackedRows layout = Layout(sequence_.lse_strides);
    for (int64_t row = 0; row < rows; ++row) sequence_.lse[layout.Offset(first_row + row)] = lse[row];
  }

 private:
  StackedRows Layout(const Strides& strides) const { return {strides, kv_head_ * group_, group_}; }

  const T* KeyRow(int64_t key) const {
    return static_cast<const T*>(sequence_.k) + kv_head_ * sequence_.k_strides.head + key * sequence_.k_strides.token;
  }

  const T* ValueRow(int64_t key) const {
    return static_cast<const T*>(sequence_.v) + kv_head_ * sequence_.v_strides.head + key * sequence_.v_strides.token;
  }

  const SequenceView& sequence_;
  const int64_t head_dim_, kv_head_, group_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_STRIDED_TENSORS_INL_H_
