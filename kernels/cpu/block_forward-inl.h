// The tiled forward of one block of rows: a loop over key tiles, and within it over the block's panels.
#if defined(TESSERA_KERNELS_CPU_BLOCK_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CPU_BLOCK_FORWARD_INL_H_
#undef TESSERA_KERNELS_CPU_BLOCK_FORWARD_INL_H_
#else
#define TESSERA_KERNELS_CPU_BLOCK_FORWARD_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <stop_token>

#include "hwy/highway.h"
#include "kernels/attention.h"
#include "kernels/cpu/block_forward.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/register_block-inl.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/softmax-inl.h"
#include "kernels/cpu/tile_shape.h"
#include "kernels/mask.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys of one tile that matter, relative to its beginning, packed in scratch.k and scratch.v.
struct PackedTile {
  int64_t first_key;   // of the tile's beginning, in the sequence
  bool finite_values;  // no NaN or infinity among the packed V
};

// Rows column .. column + rows - 1 of the block, side by side in `vectors` vectors.
struct Panel {
  int64_t column;
  int64_t rows;
  int vectors;

  int64_t width() const { return vectors * kLanes; }
};

// `Tensors` is where the block's rows and keys are read and its results written (see StridedTensors).
template <class Tensors>
class BlockForward {
 public:
  BlockForward(const AttentionParams& params, const MaskGeometry& mask, const RowBlock& block, const Tensors& tensors,
               Scratch& scratch)
      : tensors_(tensors),
        block_(block),
        scratch_(scratch),
        head_dim_(params.head_dim),
        group_(params.q_heads / params.kv_heads),
        mask_(mask),
        scale_(MakeScoreScale(params.scale, params.softcap)),
        // The sign of the scale goes into Q, and so does a scale of 0.
        query_factor_(params.scale > 0   ? 1.0f
                      : params.scale < 0 ? -1.0f
                                         : 0.0f) {}

  HWY_INLINE void Run(const std::stop_token& stop) {
    Begin();
    const KeyRange keys = VisibleToAny(0, block_.rows);
    const int64_t first_tile = keys.begin / kTileKeys * kTileKeys;
    for (int64_t tile = first_tile; tile < keys.end; tile += kTileKeys) {
      if (stop.stop_requested()) return;
      RunTile(tile, keys);
    }
    Finish();
  }

 private:
  int64_t Token(int64_t column) const { return (block_.first_row + column) / group_; }

  KeyRange VisibleToAny(int64_t column, int64_t rows) const {
    return mask_.VisibleToAny(Token(column), Token(column + rows - 1));
  }

  Panel PanelAt(int64_t column) const {
    const int64_t rows = std::min(kPanelVectors * kLanes, block_.rows - column);
    return {column, rows, static_cast<int>((rows + kLanes - 1) / kLanes)};
  }

  HWY_INLINE void Begin() {
    for (int64_t column = 0; column < block_.rows;) {
      const Panel panel = PanelAt(column);
      tensors_.PackQueries(block_.first_row + column, panel.rows, query_factor_, panel.width(),
                           scratch_.q + column * head_dim_);
      column += panel.width();
      std::fill_n(scratch_.o + panel.column * head_dim_, panel.width() * head_dim_, 0.0f);
      std::fill_n(scratch_.row_max + panel.column, panel.width(), -kInfinity);
      std::fill_n(scratch_.row_sum + panel.column, panel.width(), 0.0f);
    }
  }

  HWY_INLINE void RunTile(int64_t first_key, const KeyRange& block_keys) {
    const int64_t begin = std::max(block_keys.begin, first_key);
    const int64_t end = std::min(block_keys.end, first_key + kTileKeys);
    const int64_t offset = (begin - first_key) * kKeyStride;
    const bool finite = tensors_.PackTile(begin, end, scratch_.k + offset, scratch_.v + offset);
    const PackedTile tile{first_key, finite};
    const int64_t panels = (block_.rows + kPanelVectors * kLanes - 1) / (kPanelVectors * kLanes);
    prefetch_ =
        tensors_.Prefetch(end, std::min(block_keys.end, end + kTileKeys), panels * ((kTileKeys + head_dim_) / kSteps));
    for (int64_t column = 0; column < block_.rows;) {
      const Panel panel = PanelAt(column);
      switch (panel.vectors) {
        case 1:
          RunPanel<1>(panel, tile);
          break;
        case 2:
          RunPanel<2>(panel, tile);
          break;
        default:
          RunPanel<kPanelVectors>(panel, tile);
      }
      column += panel.width();
    }
  }

  template <int kVectors>
  HWY_NOINLINE void RunPanel(const Panel& panel, const PackedTile& tile) {
    const KeyRange any = Within(VisibleToAny(panel.column, panel.rows), tile.first_key);
    if (any.empty()) return;
    const KeyRange all =
        Within(mask_.VisibleToAll(Token(panel.column), Token(panel.column + panel.rows - 1)), tile.first_key);
    if (any == all) {
      RunKeys<kVectors, false>(panel, any, /*guarded=*/false);
    } else {
      SetVisibleKeys(panel, tile.first_key);
      RunKeys<kVectors, true>(panel, any, /*guarded=*/!tile.finite_values);
    }
  }

  // The part of `keys` that lies in the tile at `first_key`, relative to it.
  static KeyRange Within(const KeyRange& keys, int64_t first_key) {
    const int64_t begin = std::clamp<int64_t>(keys.begin - first_key, 0, kTileKeys);
    return {begin, std::clamp<int64_t>(keys.end - first_key, begin, kTileKeys)};
  }

  void SetVisibleKeys(const Panel& panel, int64_t first_key) {
    for (int64_t row = 0; row < panel.width(); ++row) {
      const KeyRange keys =
          row < panel.rows ? Within(mask_.VisibleTo(Token(panel.column + row)), first_key) : KeyRange{};
      scratch_.begin_key[row] = static_cast<float>(keys.begin);
      scratch_.end_key[row] = static_cast<float>(keys.end);
    }
  }

  template <int kVectors, bool kMasked>
  HWY_INLINE void RunKeys(const Panel& panel, const KeyRange& keys, bool guarded) {
    constexpr int64_t kPanel = kVectors * kLanes;
    const float* q = scratch_.q + panel.column * head_dim_;
    float* o = scratch_.o + panel.column * head_dim_;
    const VisibleKeys visible{scratch_.begin_key, scratch_.end_key};
    for (int64_t key = keys.begin / kSteps * kSteps; key < keys.end; key += kSteps) {
      ScoreBlock<kVectors>(q, scratch_.k + key * kKeyStride, head_dim_, scratch_.scores + key * kPanel);
      prefetch_.Step();
    }
    UpdateSoftmax<kVectors, kMasked>(scale_, keys.begin, keys.end, visible, scratch_.scores,
                                     scratch_.row_max + panel.column, scratch_.row_sum + panel.column,
                                     scratch_.rescale);
    for (int64_t c = 0; c < head_dim_; c += kSteps) {
      const float* v = scratch_.v + c;
      prefetch_.Step();
      if (kMasked && guarded) {
        OutputBlock<kVectors, true>(v, scratch_.scores, keys.begin, keys.end, scratch_.rescale, visible,
                                    o + c * kPanel);
      } else {
        OutputBlock<kVectors, false>(v, scratch_.scores, keys.begin, keys.end, scratch_.rescale, visible,
                                     o + c * kPanel);
      }
    }
  }

  HWY_INLINE void Finish() {
    FinishSoftmax(scale_, block_.rows, scratch_.row_max, scratch_.row_sum, scratch_.lse, scratch_.divide);
    for (int64_t column = 0; column < block_.rows;) {
      const Panel panel = PanelAt(column);
      tensors_.StoreOutputs(scratch_.o + column * head_dim_, scratch_.divide + column, panel.width(),
                            block_.first_row + column, panel.rows);
      column += panel.width();
    }
    tensors_.StoreLse(scratch_.lse, block_.first_row, block_.rows);
  }

  const Tensors& tensors_;
  const RowBlock block_;
  Scratch& scratch_;
  const int64_t head_dim_;
  const int64_t group_;
  const MaskGeometry mask_;
  const ScoreScale scale_;
  const float query_factor_;
  TilePrefetch prefetch_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_KERNELS_CPU_BLOCK_FORWARD_INL_H_
