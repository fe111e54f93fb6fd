// What accuracy tests expect of one sequence's outputs.
#ifndef TESSERA_KERNELS_TESTING_SEQUENCE_ACCURACY_H_
#define TESSERA_KERNELS_TESTING_SEQUENCE_ACCURACY_H_

#include "gtest/gtest.h"
#include "kernels/testing/accuracy.h"
#include "kernels/testing/random_batch.h"

namespace tessera {

// An error of at most twice that of standard attention, `standard`, plus a small tolerance (outputs are of order 1,
// where float32 has 1.2e-7); every row written, and nothing beside them.
inline void ExpectSequenceAccurate(const Deviation& standard, const ReferenceOutput& expected,
                                   const AttentionParams& params, const TestSequence& sequence) {
  SCOPED_TRACE(::testing::Message() << sequence.lengths.q_len << "x" << sequence.lengths.kv_len);
  const double tolerance = params.dtype == DType::kFloat32 ? 1e-6 : 1e-5;
  const Deviation actual = DeviationFrom(expected, params, sequence);
  EXPECT_LE(actual.o, 2 * standard.o + tolerance);
  EXPECT_LE(actual.lse, 2 * standard.lse + 1e-6);
  EXPECT_TRUE(sequence.o.PaddingIsPoison()) << "wrote outside of o";
  EXPECT_TRUE(sequence.lse.PaddingIsPoison()) << "wrote outside of lse";
  EXPECT_FALSE(sequence.o.AnyElementIsPoison()) << "left a row of o unwritten";
  EXPECT_FALSE(sequence.lse.AnyElementIsPoison()) << "left a row of lse unwritten";
}

}  // namespace tessera

#endif  // TESSERA_KERNELS_TESTING_SEQUENCE_ACCURACY_H_
