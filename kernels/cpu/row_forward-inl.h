// Few rows against many keys: decoding.
//
// With a handful of rows the lanes hold neighbouring elements of head_dim, not rows: a row of K or V is read once and
// used for all query rows of its key head.
//
//   scores [row, key] = sum over c of Q[row, c] * K[key, c]          lanes are summed at the end of a dot product
//   output [row, c]  += sum over keys of P[row, key] * V[key, c]
//
// The softmax of a row runs over keys in lanes. A row takes the same operations in the same order whatever rows stand
// beside it.
#if defined(TESSERA_KERNELS_CPU_ROW_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_ROW_FORWARD_INL_H_
#undef TESSERA_KERNELS_CPU_ROW_FORWARD_INL_H_
#else
#define TESSERA_KERNELS_CPU_ROW_FORWARD_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/attention.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/paged_tensors-inl.h"
#include "kernels/cpu/register_block-inl.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/softmax-inl.h"
#include "kernels/cpu/split_partial.h"
#include "kernels/cpu/tile_shape.h"
#include "kernels/mask.h"
#include "kernels/paged_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Floats from one row of Q or O to the next, in scratch.
inline constexpr int64_t kRowStride = kMaxHeadDim;

static_assert(kMaxSplitRows <= kTileRows, "the scores of all rows fit in scratch.scores");
static_assert(kMaxSplitRows * kRowStride <= kBlockElements, "Q and O of all rows fit in scratch");
static_assert(kTileKeys % kLanes == 0 && kRowStride % kLanes == 0, "rows of scores and of Q are whole vectors");

// scores [kRows, kTileKeys], keys begin .. end - 1, of q [kRows, kRowStride] and k [keys, kKeyStride]; `width`
// elements, a multiple of the lanes.
template <int kRows>
HWY_NOINLINE void ScoreRows(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, int64_t begin, int64_t end,
                            int64_t width, float* HWY_RESTRICT scores) {
  const RowTag d;
  for (int64_t key = begin; key < end; ++key) {
    RowVec sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    for (int64_t c = 0; c < width; c += kLanes) {
      const RowVec right = hn::Load(d, k + key * kKeyStride + c);
      for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::Load(d, q + r * kRowStride + c), right, sum[r]);
    }
    for (int r = 0; r < kRows; ++r) scores[r * kTileKeys + key] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
  }
}

// o [kRows, kRowStride] = o * rescale + P V, over keys begin .. end - 1.
template <int kRows>
HWY_NOINLINE void OutputRows(const float* HWY_RESTRICT weights, const float* HWY_RESTRICT v, int64_t begin, int64_t end,
                             int64_t width, const float* HWY_RESTRICT rescale, float* HWY_RESTRICT o) {
  const RowTag d;
  for (int64_t c = 0; c < width; c += kLanes) {
    RowVec sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    for (int64_t key = begin; key < end; ++key) {
      const RowVec right = hn::Load(d, v + key * kKeyStride + c);
      for (int r = 0; r < kRows; ++r) {
        sum[r] = hn::MulAdd(hn::Set(d, weights[r * kTileKeys + key]), right, sum[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* to = o + r * kRowStride + c;
      hn::Store(hn::MulAdd(hn::Load(d, to), hn::Set(d, rescale[r]), sum[r]), d, to);
    }
  }
}

// Turns one row's scores [kTileKeys] into weights relative to its new maximum; keys outside of `keys` weigh nothing.
// Updates *max and *sum and returns the factor by which the row's earlier output shrinks.
HWY_INLINE float UpdateRow(const ScoreScale& scale, const KeyRange& keys, float* HWY_RESTRICT scores,
                           float* HWY_RESTRICT max, float* HWY_RESTRICT sum) {
  const RowTag d;
  if (scale.cap_out > 0) {
    for (int64_t key = 0; key < kTileKeys; key += kLanes) {
      const RowVec capped = hn::Tanh(d, hn::Mul(hn::Load(d, scores + key), hn::Set(d, scale.cap_in)));
      hn::Store(hn::Mul(hn::Set(d, scale.cap_out), capped), d, scores + key);
    }
  }
  std::fill(scores, scores + keys.begin, -kInfinity);
  std::fill(scores + keys.end, scores + kTileKeys, -kInfinity);
  RowVec highest = hn::Set(d, *max);
  for (int64_t key = 0; key < kTileKeys; key += kLanes) highest = hn::Max(highest, hn::Load(d, scores + key));
  const float before = *max;
  *max = hn::GetLane(hn::MaxOfLanes(d, highest));
  // As in UpdateSoftmax: nothing is subtracted while no key has been seen.
  const RowVec base = hn::Set(d, *max == -kInfinity ? 0.0f : *max);
  const RowVec exponent = hn::Set(d, scale.exponent);
  const RowVec cutoff = hn::Set(d, scale.cutoff);
  RowVec weights = hn::Zero(d);
  for (int64_t key = 0; key < kTileKeys; key += kLanes) {
    const RowVec weight = WeightExp2(d, hn::Sub(hn::Load(d, scores + key), base), exponent, cutoff);
    hn::Store(weight, d, scores + key);
    weights = hn::Add(weights, weight);
  }
  const float shrink = hn::GetLane(WeightExp2(d, hn::Sub(hn::Set(d, before), base), exponent, cutoff));
  *sum = *sum * shrink + hn::GetLane(hn::SumOfLanes(d, weights));
  return shrink;
}

// All rows of a key head against the keys of one split.
class RowForward {
 public:
  // REQUIRES: at most kMaxSplitRows stacked rows.
  RowForward(const AttentionParams& params, const MaskGeometry& mask, const PagedTensors& tensors, int64_t rows,
             Scratch& scratch)
      : head_dim_(params.head_dim),
        width_((params.head_dim + kLanes - 1) / kLanes * kLanes),
        group_(params.q_heads / params.kv_heads),
        rows_(rows),
        mask_(mask),
        scale_(MakeScoreScale(params.scale, params.softcap)),
        query_factor_(params.scale > 0   ? 1.0f
                      : params.scale < 0 ? -1.0f
                                         : 0.0f),
        tensors_(tensors),
        scratch_(scratch) {}

  // Leaves the result in `partial`.
  void Run(const KeyRange& split, const SplitPartial& partial) {
    Begin();
    const KeyRange seen = mask_.VisibleToAny(0, (rows_ - 1) / group_);
    const int64_t begin = std::max(split.begin, seen.begin);
    const int64_t end = std::min(split.end, seen.end);
    for (int64_t tile = begin / kTileKeys * kTileKeys; tile < end; tile += kTileKeys) RunTile(tile, begin, end);
    for (int64_t row = 0; row < rows_; ++row) {
      std::copy_n(scratch_.o + row * kRowStride, head_dim_, partial.o + row * head_dim_);
    }
    std::copy_n(scratch_.row_max, rows_, partial.max);
    std::copy_n(scratch_.row_sum, rows_, partial.sum);
  }

 private:
  void Begin() {
    for (int64_t row = 0; row < rows_; ++row) {
      tensors_.LoadQuery(row, query_factor_, scratch_.q + row * kRowStride);
      std::fill_n(scratch_.q + row * kRowStride + head_dim_, width_ - head_dim_, 0.0f);
    }
    // What fills head_dim up to whole vectors has to be finite, though it counts for nothing.
    for (int64_t key = 0; key < kTileKeys && head_dim_ < width_; ++key) {
      std::fill_n(scratch_.k + key * kKeyStride + head_dim_, width_ - head_dim_, 0.0f);
    }
    std::fill_n(scratch_.o, rows_ * kRowStride, 0.0f);
    std::fill_n(scratch_.row_max, rows_, -kInfinity);
    std::fill_n(scratch_.row_sum, rows_, 0.0f);
  }

  // Keys begin .. end - 1 as far as they lie in the tile that begins at `first_key`.
  void RunTile(int64_t first_key, int64_t begin, int64_t end) {
    const KeyRange keys{std::max(begin, first_key) - first_key, std::min(end, first_key + kTileKeys) - first_key};
    const int64_t offset = keys.begin * kKeyStride;
    tensors_.PackTile(first_key + keys.begin, first_key + keys.end, scratch_.k + offset, scratch_.v + offset);
    TilePrefetch prefetch = tensors_.Prefetch(first_key + keys.end, std::min(end, first_key + 2 * kTileKeys), rows_);
    for (int64_t row = 0; row < rows_;) {
      const int64_t left = rows_ - row;
      row += left >= 4   ? RunRows<4>(row, first_key, keys)
             : left >= 2 ? RunRows<2>(row, first_key, keys)
                         : RunRows<1>(row, first_key, keys);
      prefetch.Step();
    }
  }

  // Rows row .. row + kRows - 1 against the packed keys; returns kRows.
  template <int kRows>
  int64_t RunRows(int64_t row, int64_t first_key, const KeyRange& keys) {
    float* scores = scratch_.scores + row * kTileKeys;
    float* o = scratch_.o + row * kRowStride;
    ScoreRows<kRows>(scratch_.q + row * kRowStride, scratch_.k, keys.begin, keys.end, width_, scores);
    KeyRange seen[kRows];
    bool alike = true;
    for (int r = 0; r < kRows; ++r) {
      const KeyRange all = mask_.VisibleTo((row + r) / group_);
      seen[r].begin = std::clamp(all.begin - first_key, keys.begin, keys.end);
      seen[r].end = std::clamp(all.end - first_key, seen[r].begin, keys.end);
      alike &= seen[r] == seen[0];
      scratch_.rescale[row + r] =
          UpdateRow(scale_, seen[r], scores + r * kTileKeys, scratch_.row_max + row + r, scratch_.row_sum + row + r);
    }
    const float* rescale = scratch_.rescale + row;
    if (alike) {
      OutputRows<kRows>(scores, scratch_.v, seen[0].begin, seen[0].end, width_, rescale, o);
    } else {
      // A row takes no part in the products of keys that it does not see: 0 * NaN is NaN.
      for (int r = 0; r < kRows; ++r) {
        OutputRows<1>(scores + r * kTileKeys, scratch_.v, seen[r].begin, seen[r].end, width_, rescale + r,
                      o + r * kRowStride);
      }
    }
    return kRows;
  }

  const int64_t head_dim_, width_, group_, rows_;
  const MaskGeometry mask_;
  const ScoreScale scale_;
  const float query_factor_;
  const PagedTensors& tensors_;
  Scratch& scratch_;
};

// Puts the splits of one key head together, in order, and stores its rows of O and LSE.
class SplitCombine {
 public:
  SplitCombine(const AttentionParams& params, const PagedTensors& tensors, int64_t rows, Scratch& scratch)
      : head_dim_(params.head_dim),
        rows_(rows),
        scale_(MakeScoreScale(params.scale, params.softcap)),
        tensors_(tensors),
        scratch_(scratch) {}

  // `partials` [splits], the first one's keys first.
  void Run(absl::Span<const SplitPartial> partials) {
    for (int64_t row = 0; row < rows_; ++row) {
      float max = -kInfinity;
      for (const SplitPartial& partial : partials) max = std::max(max, partial.max[row]);
      scratch_.row_max[row] = max;
      scratch_.row_sum[row] = 0;
      float* o = scratch_.o + row * kRowStride;
      std::fill_n(o, head_dim_, 0.0f);
      for (const SplitPartial& partial : partials) Add(partial, row, max, o);
    }
    // FinishSoftmax takes whole vectors.
    std::fill(scratch_.row_max + rows_, scratch_.row_max + kTileRows, -kInfinity);
    std::fill(scratch_.row_sum + rows_, scratch_.row_sum + kTileRows, 0.0f);
    FinishSoftmax(scale_, rows_, scratch_.row_max, scratch_.row_sum, scratch_.lse, scratch_.divide);
    for (int64_t row = 0; row < rows_; ++row) {
      tensors_.StoreOutput(scratch_.o + row * kRowStride, scratch_.divide[row], row);
    }
    tensors_.StoreLse(scratch_.lse, 0, rows_);
  }

 private:
  HWY_INLINE void Add(const SplitPartial& partial, int64_t row, float max, float* HWY_RESTRICT o) {
    if (partial.sum[row] == 0) return;  // it saw no key; NaN is not 0
    const hn::CappedTag<float, 8> d;    // head_dim is a multiple of 8
    const auto shrink =
        WeightExp2(d, hn::Set(d, partial.max[row] - max), hn::Set(d, scale_.exponent), hn::Set(d, scale_.cutoff));
    scratch_.row_sum[row] += partial.sum[row] * hn::GetLane(shrink);
    const float* from = partial.o + row * head_dim_;
    for (int64_t c = 0; c < head_dim_; c += hn::MaxLanes(d)) {
      hn::StoreU(hn::MulAdd(hn::LoadU(d, from + c), shrink, hn::LoadU(d, o + c)), d, o + c);
    }
  }

  const int64_t head_dim_, rows_;
  const ScoreScale scale_;
  const PagedTensors& tensors_;
  Scratch& scratch_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_ROW_FORWARD_INL_H_
