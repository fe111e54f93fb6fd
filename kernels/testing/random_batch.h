// Batches of random tensors for tests of attention backends: any dtype, any layout, outputs poisoned.
#ifndef TESSERA_KERNELS_TESTING_RANDOM_BATCH_H_
#define TESSERA_KERNELS_TESTING_RANDOM_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "kernels/attention.h"

namespace tessera {

struct SequenceLengths {
  int64_t q_len = 0;
  int64_t kv_len = 0;
};

// How [tokens, heads, width] lies in memory.
enum class TensorLayout {
  kPacked,      // token after token, heads side by side
  kPadded,      // as kPacked, with unused elements after each head and each token
  kHeadsOuter,  // transposed: all tokens of a head lie together
};

// One tensor of one sequence with an unused, poisoned margin before and after it. Elements are stored in a DType and
// read and written as float.
class TestTensor {
 public:
  TestTensor(DType dtype, TensorLayout layout, int64_t tokens, int64_t heads, int64_t width);

  void* data();
  // All bytes, margin and padding included.
  absl::Span<std::byte> memory() { return absl::MakeSpan(bytes_); }
  const Strides& strides() const { return strides_; }
  float Get(int64_t token, int64_t head, int64_t c) const;
  void Set(int64_t token, int64_t head, int64_t c, float value);
  void SetRow(int64_t token, int64_t head, float value);
  void FillNormal(std::mt19937_64& random, float deviation);

  // Fills all bytes, margin and padding included, with a pattern that is NaN in every dtype.
  void Poison();
  // Whether every byte outside of the tensor's elements still holds the pattern.
  bool PaddingIsPoison() const;
  // Whether any of the tensor's elements still holds it.
  bool AnyElementIsPoison() const;
  // The elements' bytes, packed: equal bytes, equal bits.
  std::vector<std::byte> Bytes() const;

 private:
  int64_t Offset(int64_t token, int64_t head, int64_t c) const;

  DType dtype_;
  int64_t tokens_, heads_, width_;
  Strides strides_;
  int64_t margin_;  // elements
  std::vector<std::byte> bytes_;
};

// The tensors of one sequence.
struct TestSequence {
  SequenceLengths lengths;
  TestTensor q, k, v, o, lse;
};

class RandomBatch {
 public:
  // Normally distributed q, k, v with the given standard deviation; outputs poisoned.
  RandomBatch(const AttentionParams& params, absl::Span<const SequenceLengths> lengths, uint64_t seed,
              TensorLayout layout = TensorLayout::kPacked, float deviation = 1.0f);

  TestSequence& operator[](size_t i) { return sequences_[i]; }
  size_t size() const { return sequences_.size(); }
  const AttentionParams& params() const { return params_; }

  // Views of all sequences, valid as long as the batch.
  std::vector<SequenceView> Views(bool with_lse = true);
  SequenceView View(size_t i, bool with_lse = true);
  void PoisonOutputs();

 private:
  AttentionParams params_;
  std::vector<TestSequence> sequences_;
};

}  // namespace tessera

#endif  // TESSERA_KERNELS_TESTING_RANDOM_BATCH_H_
