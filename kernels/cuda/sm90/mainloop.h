// A consumer warpgroup's work on one tile: 64 query rows against all their key blocks, last block first.
//
//   S(n) = Q K(n)^T;  P(n), m, l = softmax step of S(n);  O = O * rescale + P(n) V(n)
//
// Three overlaps. Inside a warpgroup S(n - 1) and O += P(n) V(n) are issued together, and the softmax of S(n - 1) runs
// while the second is still computed. Between warpgroups a token goes round: the holder issues its products, then
// passes it on and computes softmax while the others' products run. Between tiles the next tile's first scores are
// issued before this tile's output is stored.
#ifndef TESSERA_KERNELS_CUDA_SM90_MAINLOOP_H_
#define TESSERA_KERNELS_CUDA_SM90_MAINLOOP_H_

#include "kernels/cuda/key_range.h"
#include "kernels/cuda/online_softmax.h"
#include "kernels/cuda/ptx/barrier.h"
#include "kernels/cuda/ptx/wgmma.h"
#include "kernels/cuda/sm90/row_place.h"
#include "kernels/cuda/sm90/traits.h"
#include "kernels/cuda/tile/fragment.h"

namespace tessera::cuda::sm90 {

// Named barriers: 0 is the block's; kTokenBarrier + w hands the token to consumer warpgroup w, kStageBarrier + w is its
// own.
inline constexpr int kTokenBarrier = 1;
inline constexpr int kStageBarrier = 1 + kMaxConsumers;

template <typename Traits, bool kMapsScores>
class Mainloop {
 public:
  using Element = typename Traits::Element;
  using Storage = SharedStorage<Traits>;
  using QLayout = typename Traits::QLayout;
  using KvLayout = typename Traits::KvLayout;
  static constexpr int kScores = Traits::kTileKeys / 2;  // floats a thread
  static constexpr int kOutputs = Traits::kHeadDim / 2;

  __device__ Mainloop(const ForwardLaunch& launch, Storage& storage, int warpgroup)
      : launch_(launch), storage_(storage), warpgroup_(warpgroup) {
    if (Traits::kPingPong && warpgroup == 0) PassTokenTo(0);
  }

  // Issues the products of a tile's last block, S = Q K^T, once Q and K are there. Without a tile it issues them all
  // the same, on whatever lies in the buffers, so that control flow is the same for the compiler; s must then not be
  // used. REQUIRES: no products in flight touch s.
  __device__ __forceinline__ void Begin(bool has_tile, float (&s)[kScores]) {
    if (has_tile) {
      ptx::BarrierWait(&storage_.q_full[q_.index()][warpgroup_], q_.parity());
      ptx::BarrierWait(&storage_.k_full[k_.index()], k_.parity());
    }
    IssueScores(s);
  }

  // After Begin: all blocks but the product with the first block's V, which is issued and left in flight: o will hold
  // the unnormalised output after End. Releases Q. first_row: this thread's first row in the tile; the other is 8
  // further on.
  __device__ __forceinline__ void Run(const TileInfo& info, int first_row, float (&s)[kScores],
                                      uint32_t (&p)[kScores / 2], float (&o)[kOutputs], OnlineSoftmax& softmax) {
    float rescale[2];
    const KeyBlocks blocks = info.blocks;
    int32_t block = blocks.end - 1;
    ptx::WgmmaWait<0>();
    ptx::WgmmaPin(s);
    ReleaseKeys();
    Softmax<true>(info, first_row, s, block, rescale, softmax, blocks.needs_mask(block));
    tile::PackOperand<Element>(p, s);
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
    // Three runs of blocks, so that the middle one, nearly all of them, carries no masking.
    for (--block; block >= blocks.begin && block >= blocks.whole_end; --block) {
      Step<true>(info, first_row, s, p, o, block, rescale, softmax);
    }
    for (; block >= blocks.begin && block >= blocks.whole_begin; --block) {
      Step<false>(info, first_row, s, p, o, block, rescale, softmax);
    }
    for (; block >= blocks.begin; --block) Step<true>(info, first_row, s, p, o, block, rescale, softmax);

    ReleaseQueries();
    ptx::BarrierWait(&storage_.v_full[v_.index()], v_.parity());
    IssueOutputs(o, p);
  }

  // After Run and the next tile's Begin, whose products stay in flight: waits for the product that Run left in flight.
  __device__ __forceinline__ void End(uint32_t (&p)[kScores / 2], float (&o)[kOutputs]) {
    ptx::WgmmaWait<1>();
    ptx::WgmmaPin(o);
    ptx::WgmmaPin(p);
    ReleaseValues();
  }

  // After End, where output is staged: the buffer of the tile's Q, of which this warp may write its 16 rows once no
  // warp of the warpgroup reads Q there any more.
  __device__ __forceinline__ unsigned char* OutputStage() {
    ptx::NamedBarrierSync(kStageBarrier + warpgroup_, kWarpgroup);
    return storage_.q[EndingTileBuffer()][warpgroup_];
  }
  // The warp has written its rows.
  __device__ __forceinline__ void PassOutputStage() {
    ptx::FenceProxyAsyncShared();
    __syncwarp();
    ArriveWarp(&storage_.o_full[EndingTileBuffer()][warpgroup_]);
  }

 private:
  // q_ is the next tile's.
  __device__ __forceinline__ int EndingTileBuffer() const {
    static_assert(Traits::kQueryBuffers <= 2);
    return q_.index() ^ 1;
  }

  // One block: scores of `block`, output of the block before it.
  template <bool kMasked>
  __device__ __forceinline__ void Step(const TileInfo& info, int first_row, float (&s)[kScores],
                                       uint32_t (&p)[kScores / 2], float (&o)[kOutputs], int32_t block,
                                       float (&rescale)[2], OnlineSoftmax& softmax) {
    ptx::BarrierWait(&storage_.k_full[k_.index()], k_.parity());
    TakeToken();
    IssueScores(s);
    ptx::BarrierWait(&storage_.v_full[v_.index()], v_.parity());
    IssueOutputs(o, p);
    PassToken();
    ptx::WgmmaWait<1>();
    ptx::WgmmaPin(s);
    ReleaseKeys();
    Softmax<kMasked>(info, first_row, s, block, rescale, softmax, true);
    ptx::WgmmaWait<0>();
    ptx::WgmmaPin(o);
    ptx::WgmmaPin(p);
    ReleaseValues();
    tile::PackOperand<Element>(p, s);
#pragma unroll
    for (int j = 0; j < kOutputs / 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) o[4 * j + e] *= rescale[e / 2];
    }
  }

  template <bool kMasked>
  __device__ __forceinline__ void Softmax(const TileInfo& info, int first_row, float (&s)[kScores], int32_t block,
                                          float (&rescale)[2], OnlineSoftmax& softmax, bool masks) {
    if constexpr (kMapsScores) launch_.score_map.Apply(s);
    if (kMasked && masks) {
      const KeyRange rows[2] = {KeysOfRow(info, first_row, launch_), KeysOfRow(info, first_row + 8, launch_)};
      MaskScores(s, rows, block * Traits::kTileKeys, threadIdx.x % 4);
    }
    softmax.template Update<kMasked>(s, launch_.score_map.factor_log2, rescale);
  }

  __device__ __forceinline__ void IssueScores(float (&s)[kScores]) {
    const uint64_t q =
        tile::MatrixDescriptor(QLayout::kDepthInnerWord, ptx::SharedAddress(storage_.q[q_.index()][warpgroup_]));
    const uint64_t k = tile::MatrixDescriptor(KvLayout::kDepthInnerWord, ptx::SharedAddress(storage_.k[k_.index()]));
    ptx::WgmmaPin(s);
    ptx::WgmmaFence();
#pragma unroll
    for (int step = 0; step < Traits::kHeadDim / tile::kMmaDepth; ++step) {
      ptx::WgmmaShared<Element, Traits::kTileKeys>(s, q + (QLayout::DepthInnerOffset(step) >> 4),
                                                   k + (KvLayout::DepthInnerOffset(step) >> 4), step > 0);
    }
    ptx::WgmmaCommit();
    ptx::WgmmaPin(s);
  }

  __device__ __forceinline__ void IssueOutputs(float (&o)[kOutputs], uint32_t (&p)[kScores / 2]) {
    const uint64_t v = tile::MatrixDescriptor(KvLayout::kColumnsInnerWord, ptx::SharedAddress(storage_.v[v_.index()]));
    ptx::WgmmaPin(o);
    ptx::WgmmaPin(p);
    ptx::WgmmaFence();
#pragma unroll
    for (int step = 0; step < Traits::kTileKeys / tile::kMmaDepth; ++step) {
      const uint32_t(&a)[4] = reinterpret_cast<const uint32_t(&)[4]>(p[4 * step]);
      ptx::WgmmaRegisters<Element, Traits::kHeadDim>(o, a, v + (KvLayout::ColumnsInnerOffset(step) >> 4), 1);
    }
    ptx::WgmmaCommit();
    ptx::WgmmaPin(o);
  }

  __device__ __forceinline__ void ReleaseQueries() {
    if (!Traits::kStagesOutput) ArriveWarp(&storage_.q_empty[q_.index()][warpgroup_]);
    q_.Advance();
  }

  __device__ __forceinline__ void ReleaseKeys() {
    ArriveWarp(&storage_.k_empty[k_.index()]);
    k_.Advance();
  }

  __device__ __forceinline__ void ReleaseValues() {
    ArriveWarp(&storage_.v_empty[v_.index()]);
    v_.Advance();
  }

  __device__ __forceinline__ void ArriveWarp(uint64_t* barrier) {
    if (threadIdx.x % 32 == 0) ptx::BarrierArrive(barrier);
  }

  __device__ __forceinline__ void TakeToken() {
    if (Traits::kPingPong) ptx::NamedBarrierSync(kTokenBarrier + warpgroup_, 2 * kWarpgroup);
  }

  __device__ __forceinline__ void PassToken() {
    if (Traits::kPingPong) PassTokenTo(warpgroup_ == Traits::kConsumers - 1 ? 0 : warpgroup_ + 1);
  }

  __device__ __forceinline__ void PassTokenTo(int warpgroup) {
    ptx::NamedBarrierArrive(kTokenBarrier + warpgroup, 2 * kWarpgroup);
  }

  const ForwardLaunch& launch_;
  Storage& storage_;
  const int warpgroup_;
  RingCursor<Traits::kQueryBuffers> q_;
  RingCursor<Traits::kStages> k_, v_;
};

}  // namespace tessera::cuda::sm90

#endif  // TESSERA_KERNELS_CUDA_SM90_MAINLOOP_H_
