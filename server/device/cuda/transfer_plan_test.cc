#include "server/device/cuda/transfer_plan.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/memory/staging_pool.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Piece = TransferPlan::Piece;

// Addresses that are never followed.
std::byte* At(size_t address) { return reinterpret_cast<std::byte*>(address); }

BatchItem Item(size_t input, size_t input_bytes, size_t output, size_t output_bytes,
               absl::Span<const SequenceView> sequences = {}) {
  return {{At(input), input_bytes}, {At(output), output_bytes}, sequences};
}

TEST(TransferPlan, SeparateItemsTravelEachAsOnePieceEachWay) {
  const std::vector<BatchItem> items = {Item(0x9000, 768, 0xa000, 256), Item(0x1000, 512, 0x2000, 300)};
  const TransferPlan plan(items);
  EXPECT_THAT(plan.inputs(), ElementsAre(Piece{At(0x1000), 0, 512}, Piece{At(0x9000), 512, 768}));
  EXPECT_THAT(plan.outputs(), ElementsAre(Piece{At(0x2000), 1280, 300}, Piece{At(0xa000), 1792, 256}));
  EXPECT_EQ(plan.device_bytes(), 2048);
}

TEST(TransferPlan, NeighboursTravelAsOnePieceWhateverTheirOrder) {
  // Neighbours have only padding between them; 0x1300 follows 300 bytes at 0x1100, 0x1600 leaves a gap.
  const std::vector<BatchItem> items = {Item(0x1300, 256, 0x8000, 256), Item(0x1100, 300, 0x8200, 256),
                                        Item(0x1600, 256, 0x8100, 256)};
  const TransferPlan plan(items);
  EXPECT_THAT(plan.inputs(), ElementsAre(Piece{At(0x1100), 0, 512 + 256}, Piece{At(0x1600), 768, 256}));
  EXPECT_THAT(plan.outputs(), ElementsAre(Piece{At(0x8000), 1024, 768}));
  EXPECT_EQ(plan.device_bytes(), 1792);
}

TEST(TransferPlan, AnOutputBetweenTwoInputsIsNotTouched) {
  const std::vector<BatchItem> items = {Item(0x1000, 256, 0x1100, 256), Item(0x1200, 256, 0x1300, 256)};
  const TransferPlan plan(items);
  EXPECT_EQ(plan.inputs().size(), 2);
  EXPECT_EQ(plan.outputs().size(), 2);
}

TEST(TransferPlan, ViewsPointToWhereTheBytesLand) {
  SequenceView first, second;
  first.q = At(0x1000);
  first.o = At(0x2000);
  second.q = At(0x3000);
  second.k = At(0x3010);
  second.v = At(0x3020);
  second.o = At(0x4000);
  second.lse = reinterpret_cast<float*>(At(0x4010));
  const std::vector<BatchItem> items = {Item(0x1000, 700, 0x2000, 256, {&first, 1}),
                                        Item(0x3000, 768, 0x4000, 257, {&second, 1})};
  const TransferPlan plan(items);
  EXPECT_THAT(plan.inputs(), ElementsAre(Piece{At(0x1000), 0, 700}, Piece{At(0x3000), 0x300, 768}));
  EXPECT_THAT(plan.outputs(), ElementsAre(Piece{At(0x2000), 0x600, 256}, Piece{At(0x4000), 0x700, 257}));

  const std::vector<SequenceView> views = plan.Views(At(0x10000));
  ASSERT_EQ(views.size(), 2);
  EXPECT_EQ(views[0].q, At(0x10000));
  EXPECT_EQ(views[0].k, nullptr);
  EXPECT_EQ(views[0].o, At(0x10600));
  EXPECT_EQ(views[0].lse, nullptr);
  EXPECT_EQ(views[1].q, At(0x10300));
  EXPECT_EQ(views[1].k, At(0x10310));
  EXPECT_EQ(views[1].v, At(0x10320));
  EXPECT_EQ(views[1].o, At(0x10700));
  EXPECT_EQ(views[1].lse, reinterpret_cast<float*>(At(0x10710)));
}

TEST(TransferPlan, TensorsOfARegionTravelEachFromItsPlaceAndNothingBetweenThem) {
  SequenceView view;
  view.q = At(0x1000);
  view.k = At(0x3000);
  view.v = At(0x1100);
  view.o = At(0x5000);
  view.lse = reinterpret_cast<float*>(At(0x5200));
  // v follows q at once and travels with it. Between o and LSE there are bytes of the caller's.
  const std::vector<HostTensor> tensors = {{At(0x1000), 256, false},
                                           {At(0x3000), 100, false},
                                           {At(0x1100), 100, false},
                                           {At(0x5000), 300, true},
                                           {At(0x5200), 16, true}};
  const std::vector<BatchItem> items = {{{}, {}, {&view, 1}, tensors}};
  const TransferPlan plan(items);
  EXPECT_THAT(plan.inputs(), ElementsAre(Piece{At(0x1000), 0, 356}, Piece{At(0x3000), 0x200, 100}));
  EXPECT_THAT(plan.outputs(), ElementsAre(Piece{At(0x5000), 0x300, 300}, Piece{At(0x5200), 0x500, 16}));

  const std::vector<SequenceView> views = plan.Views(At(0x10000));
  ASSERT_EQ(views.size(), 1);
  EXPECT_EQ(views[0].q, At(0x10000));
  EXPECT_EQ(views[0].v, At(0x10100));
  EXPECT_EQ(views[0].k, At(0x10200));
  EXPECT_EQ(views[0].o, At(0x10300));
  EXPECT_EQ(views[0].lse, reinterpret_cast<float*>(At(0x10500)));
}

TEST(TransferPlan, StagedOutputAndRegionOutputThatFollowsItTravelApart) {
  const std::vector<HostTensor> tensors = {{At(0x1200), 100, true}, {At(0x1300), 100, true}};
  const std::vector<BatchItem> items = {Item(0x9000, 256, 0x1100, 256), {{}, {}, {}, tensors}};
  const TransferPlan plan(items);
  // 256 bytes at 0x1100 end where the region's begin; after 100 of these the caller's own follow.
  EXPECT_THAT(plan.outputs(), ElementsAre(Piece{At(0x1100), 0x100, 356}, Piece{At(0x1300), 0x300, 100}));
}

TEST(TransferPlan, TensorsOnTheDeviceStayWhereTheyAre) {
  SequenceView view;
  view.q = view.k = view.v = At(0x1000);
  view.o = At(0x2000);
  const std::vector<BatchItem> items = {{{}, {}, {&view, 1}}, Item(0x3000, 256, 0x4000, 256)};
  const TransferPlan plan(items);
  EXPECT_EQ(plan.device_bytes(), 512);
  EXPECT_EQ(plan.Views(At(0x10000))[0].q, At(0x1000));
  EXPECT_EQ(plan.Views(At(0x10000))[0].o, At(0x2000));
}

TEST(TransferPlan, NothingTravelsOfAnItemWithoutBytes) {
  SequenceView empty;
  empty.q_strides = Strides::Packed(2, 8);
  const std::vector<BatchItem> items = {Item(0, 0, 0, 0, {&empty, 1})};
  const TransferPlan plan(items);
  EXPECT_THAT(plan.inputs(), IsEmpty());
  EXPECT_THAT(plan.outputs(), IsEmpty());
  EXPECT_EQ(plan.device_bytes(), 0);
  const std::vector<SequenceView> views = plan.Views(nullptr);
  ASSERT_EQ(views.size(), 1);
  EXPECT_EQ(views[0].q, nullptr);
  EXPECT_EQ(views[0].q_strides.token, 16);
}

TEST(TransferPlan, ViewsOfAllSequencesOfAllItemsInOrder) {
  std::vector<SequenceView> first(2), second(1);
  first[0].q_len = 1;
  first[1].q_len = 2;
  second[0].q_len = 3;
  const std::vector<BatchItem> items = {Item(0x1000, 256, 0x2000, 256, first), Item(0x3000, 256, 0x4000, 256, second)};
  std::vector<int64_t> lengths;
  for (const SequenceView& view : TransferPlan(items).Views(At(0x10000))) lengths.push_back(view.q_len);
  EXPECT_THAT(lengths, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace tessera
