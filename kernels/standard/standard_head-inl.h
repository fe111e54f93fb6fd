// Standard attention of one head: S = Q K^T, P = softmax(S), O = P V, with S and P whole in memory.
#if defined(TESSERA_KERNELS_STANDARD_STANDARD_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_STANDARD_STANDARD_HEAD_INL_H_
#undef TESSERA_KERNELS_STANDARD_STANDARD_HEAD_INL_H_
#else
#define TESSERA_KERNELS_STANDARD_STANDARD_HEAD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/attention.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/half.h"
#include "kernels/mask.h"
#include "kernels/standard/row_product-inl.h"
#include "kernels/standard/standard_head.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// T is the call's element type: what is stored between the steps.
template <typename T>
class StandardHeadOnTarget {
 public:
  StandardHeadOnTarget(const AttentionParams& params, const SequenceView& sequence, int64_t head,
                       StandardWorkspace& workspace)
      : workspace_(workspace),
        params_(params),
        sequence_(sequence),
        head_(head),
        kv_head_(head / (params.q_heads / params.kv_heads)),
        q_len_(sequence.q_len),
        kv_len_(sequence.kv_len),
        head_dim_(params.head_dim),
        // Whole register blocks, and a cache line more so that the rows do not fall into the same cache sets.
        key_stride_((kv_len_ + kColumns - 1) / kColumns * kColumns + 16),
        value_stride_((head_dim_ + kColumns - 1) / kColumns * kColumns + 16),
        mask_(params.mask, q_len_, kv_len_) {}

  bool Run() {
    if (q_len_ == 0) return true;
    if (!Allocate()) return false;
    Convert();
    Scores();
    for (int64_t row = 0; row < q_len_; ++row) Probabilities(row);
    for (int64_t row = 0; row < q_len_; row += kRows) Outputs(row, std::min(kRows, q_len_ - row));
    return true;
  }

 private:
  // Cuts the workspace into the arrays below, each a whole number of cache lines.
  bool Allocate() {
    const struct {
      float** array;
      int64_t floats;
    } arrays[] = {{&queries_, q_len_ * head_dim_},
                  {&keys_, head_dim_ * key_stride_},
                  {&values_, kv_len_ * value_stride_},
                  {&rows_, kRows * std::max(key_stride_, value_stride_)},
                  {&output_, kRows * value_stride_}};
    constexpr int64_t kLine = 64;
    const auto lines = [](int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; };
    const int64_t score_bytes = lines(q_len_ * kv_len_ * static_cast<int64_t>(sizeof(T)));
    int64_t bytes = 2 * score_bytes;
    for (const auto& [array, floats] : arrays) bytes += lines(floats * static_cast<int64_t>(sizeof(float)));
    std::byte* next = workspace_.Reserve(bytes);
    if (next == nullptr) return false;
    for (const auto& [array, floats] : arrays) {
      *array = reinterpret_cast<float*>(next);
      next += lines(floats * static_cast<int64_t>(sizeof(float)));
    }
    scores_ = reinterpret_cast<T*>(next);
    probabilities_ = reinterpret_cast<T*>(next + score_bytes);
    return true;
  }

  // Q [q_len, head_dim], K transposed [head_dim, key_stride] and V [kv_len, value_stride] in float32.
  void Convert() {
    const T* q = static_cast<const T*>(sequence_.q) + head_ * sequence_.q_strides.head;
    const T* k = static_cast<const T*>(sequence_.k) + kv_head_ * sequence_.k_strides.head;
    const T* v = static_cast<const T*>(sequence_.v) + kv_head_ * sequence_.v_strides.head;
    for (int64_t row = 0; row < q_len_; ++row) {
      for (int64_t c = 0; c < head_dim_; ++c) {
        queries_[row * head_dim_ + c] = ToFloat(q[row * sequence_.q_strides.token + c]);
      }
    }
    std::fill_n(keys_, head_dim_ * key_stride_, 0.0f);
    std::fill_n(values_, kv_len_ * value_stride_, 0.0f);
    for (int64_t key = 0; key < kv_len_; ++key) {
      for (int64_t c = 0; c < head_dim_; ++c) {
        keys_[c * key_stride_ + key] = ToFloat(k[key * sequence_.k_strides.token + c]);
        values_[key * value_stride_ + c] = ToFloat(v[key * sequence_.v_strides.token + c]);
      }
    }
  }

  // scores [q_len, kv_len] = round(cap(scale q.k)), masked keys among them.
  void Scores() {
    for (int64_t key = 0; key < kv_len_; key += kColumns) {
      const int64_t columns = std::min(kColumns, kv_len_ - key);
      for (int64_t row = 0; row < q_len_; row += kRows) {
        const int64_t rows = std::min(kRows, q_len_ - row);
        std::fill_n(rows_, kRows * kColumns, 0.0f);
        RowProduct(rows, queries_ + row * head_dim_, head_dim_, keys_ + key, key_stride_, head_dim_, rows_, kColumns);
        for (int64_t i = 0; i < rows; ++i) {
          StoreScores(rows_ + i * kColumns, columns, scores_ + (row + i) * kv_len_ + key);
        }
      }
    }
  }

  void StoreScores(float* products, int64_t count, T* to) const {
    const FloatTag d;
    for (int64_t j = 0; j < kColumns; j += kFloats) {
      auto score = hn::Mul(hn::Load(d, products + j), hn::Set(d, params_.scale));
      if (params_.softcap > 0) {
        const auto cap = hn::Set(d, params_.softcap);
        score = hn::Mul(cap, hn::Tanh(d, hn::Div(score, cap)));
      }
      if (j + kFloats <= count) {
        StoreFloats(d, score, to + j);
        continue;
      }
      hn::Store(score, d, products + j);
      for (int64_t i = j; i < count; ++i) to[i] = FromFloat<T>(products[i]);
      return;
    }
  }

  // One row of probabilities from its scores, over the keys that it sees, and its LSE.
  void Probabilities(int64_t row) {
    const FloatTag d;
    const KeyRange keys = mask_.VisibleTo(row);
    const T* scores = scores_ + row * kv_len_;
    T* probabilities = probabilities_ + row * kv_len_;
    float* weights = rows_;
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      weights[key] = ToFloat(scores[key]);
      if (weights[key] > max || std::isnan(weights[key])) max = weights[key];  // NaN stays: nothing compares above it
    }
    const bool unseen = max == -std::numeric_limits<float>::infinity();
    float sum = 0;
    int64_t key = keys.begin;
    if (!unseen) {
      auto sums = hn::Zero(d);
      for (; key + kFloats <= keys.end; key += kFloats) {
        const auto weight = hn::Exp(d, hn::Sub(hn::LoadU(d, weights + key), hn::Set(d, max)));
        hn::StoreU(weight, d, weights + key);
        sums = hn::Add(sums, weight);
      }
      sum = hn::GetLane(hn::SumOfLanes(d, sums));
    }
    for (; key < keys.end; ++key) {
      weights[key] = unseen ? 0.0f : std::exp(weights[key] - max);
      sum += weights[key];
    }
    for (key = keys.begin; key < keys.end; ++key) {
      probabilities[key] = FromFloat<T>(unseen ? 0.0f : weights[key] / sum);
    }
    if (sequence_.lse == nullptr) return;
    sequence_.lse[row * sequence_.lse_strides.token + head_ * sequence_.lse_strides.head] =
        unseen ? max : max + std::log(sum);
  }

  // o of `rows` rows from `first` on. Keys that only some of them see are left out of the others' products, so that NaN
  // in V reaches no row that does not see it.
  void Outputs(int64_t first, int64_t rows) {
    const int64_t last = first + rows - 1;
    KeyRange all = mask_.VisibleToAll(first, last);
    if (all.empty()) all = {mask_.VisibleTo(first).end, mask_.VisibleTo(first).end};
    std::fill_n(output_, rows * value_stride_, 0.0f);
    for (int64_t i = 0; i < rows; ++i) {
      const KeyRange keys = mask_.VisibleTo(first + i);
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        rows_[i * key_stride_ + key] = ToFloat(probabilities_[(first + i) * kv_len_ + key]);
      }
      AddProducts(1, i, {keys.begin, std::min(all.begin, keys.end)});
    }
    AddProducts(rows, 0, all);
    for (int64_t i = 0; i < rows; ++i) {
      const KeyRange keys = mask_.VisibleTo(first + i);
      AddProducts(1, i, {std::max(all.end, keys.begin), keys.end});
      T* o = static_cast<T*>(sequence_.o) + (first + i) * sequence_.o_strides.token + head_ * sequence_.o_strides.head;
      for (int64_t c = 0; c < head_dim_; ++c) o[c] = FromFloat<T>(output_[i * value_stride_ + c]);
    }
  }

  // output [rows, value_stride] += P V over `keys`, rows from `row` on.
  void AddProducts(int64_t rows, int64_t row, const KeyRange& keys) {
    if (keys.empty()) return;
    for (int64_t c = 0; c < head_dim_; c += kColumns) {
      RowProduct(rows, rows_ + row * key_stride_ + keys.begin, key_stride_, values_ + keys.begin * value_stride_ + c,
                 value_stride_, keys.size(), output_ + row * value_stride_ + c, value_stride_);
    }
  }

  StandardWorkspace& workspace_;
  const AttentionParams& params_;
  const SequenceView& sequence_;
  const int64_t head_, kv_head_, q_len_, kv_len_, head_dim_, key_stride_, value_stride_;
  const MaskGeometry mask_;
  float *queries_, *keys_, *values_, *rows_, *output_;  // set by Allocate, as are the two below
  T *scores_, *probabilities_;
};

inline bool StandardHeadOfType(const AttentionParams& params, const SequenceView& sequence, int64_t head,
                               StandardWorkspace& workspace) {
  switch (params.dtype) {
    case DType::kFloat16:
      return StandardHeadOnTarget<Half>(params, sequence, head, workspace).Run();
    case DType::kBFloat16:
      return StandardHeadOnTarget<BFloat16>(params, sequence, head, workspace).Run();
    case DType::kFloat32:
      break;
  }
  return StandardHeadOnTarget<float>(params, sequence, head, workspace).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_STANDARD_STANDARD_HEAD_INL_H_
