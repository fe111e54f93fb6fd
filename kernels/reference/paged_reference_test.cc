// The paged reference against the contiguous one, over the same rows.
#include "kernels/reference/paged_reference.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/paged_batch.h"

namespace tessera {
namespace {

TEST(PagedReferenceTest, IsTheReferenceOverTheRowsInThePages) {
  const std::vector<PagedLengths> lengths = {{1, 9, 0}, {5, 8, 0}, {3, 1, 0}, {2, 0, 0}, {0, 7, 0}};
  for (const PageShape& shape : {PageShape{CacheDType::kFloat16, 4, PageLayout::kTokensOuter},
                                 PageShape{CacheDType::kFloat16, 1, PageLayout::kHeadsOuter},
                                 PageShape{CacheDType::kFloat8, 8, PageLayout::kPadded}}) {
    const AttentionParams attention{.dtype = DType::kFloat16,
                                    .q_heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 24,
                                    .scale = 0.3f,
                                    .mask = Mask::Causal(),
                                    .softcap = 5.0f};
    PagedBatch batch(attention, shape, lengths, 7);
    for (size_t i = 0; i < batch.size(); ++i) {
      const ReferenceOutput paged = AttendPagedInDouble(batch.params(), batch.View(i));
      const ReferenceOutput contiguous = AttendInDouble(attention, batch.contiguous().View(i));
      EXPECT_EQ(paged.o, contiguous.o);
      EXPECT_EQ(paged.lse, contiguous.lse);
    }
  }
}

}  // namespace
}  // namespace tessera
