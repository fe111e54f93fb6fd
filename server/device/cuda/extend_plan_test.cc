#include "server/device/cuda/extend_plan.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Addresses that are never followed.
std::byte* At(size_t address) { return reinterpret_cast<std::byte*>(address); }

MATCHER_P3(Moves, from, bytes, to, "") {
  return arg.from == At(from) && arg.bytes == static_cast<size_t>(bytes) && arg.to == At(to);
}

ExtendItem Item(absl::Span<const std::byte> input, absl::Span<std::byte> output,
                absl::Span<const PagedSequence> sequences) {
  return {.fills = {}, .copies = {}, .input = input, .output = output, .sequences = sequences};
}

PagedParams Params() {
  PagedParams params;
  params.page_tokens = 4;
  return params;
}

TEST(ExtendPlan, TablesGoToTheBlockWithTheInputs) {
  const std::vector<int32_t> table = {7, 3};
  PagedSequence sequence;
  sequence.kv_len = 5;
  sequence.pages = table;
  const std::vector<ExtendItem> items = {Item({At(0x1000), 100}, {}, {&sequence, 1})};
  const StepTables tables(Params(), items);
  const ExtendPlan plan(items, tables, {At(0x3000), tables.bytes()});
  EXPECT_THAT(plan.CopiesAndInputs(At(0x10000)),
              ElementsAre(Moves(0x1000, 100, 0x10000), Moves(0x3000, 2 * sizeof(int32_t), 0x10100)));
  const PagedSequence view = plan.Views(At(0x10000))[0];
  EXPECT_EQ(view.pages.data(), reinterpret_cast<const int32_t*>(At(0x10100)));
  EXPECT_EQ(view.pages.size(), 2);
}

TEST(ExtendPlan, RowsMoveToTheBlockAndLayersStay) {
  PagedSequence sequence;
  sequence.q_len = sequence.append_len = 1;
  sequence.layer = {.k_pages = At(0x777000), .v_pages = At(0x778000)};
  sequence.q = At(0x1000);
  sequence.k = At(0x1040);
  sequence.v = At(0x1080);
  sequence.o = At(0x2000);
  sequence.lse = reinterpret_cast<float*>(At(0x2040));
  const std::vector<ExtendItem> items = {Item({At(0x1000), 0xc0}, {At(0x2000), 0x50}, {&sequence, 1})};
  const StepTables tables(Params(), items);
  const ExtendPlan plan(items, tables, {});
  EXPECT_EQ(plan.transfers().device_bytes(), 512);
  const PagedSequence view = plan.Views(At(0x10000))[0];
  EXPECT_EQ(view.q, At(0x10000));
  EXPECT_EQ(view.k, At(0x10040));
  EXPECT_EQ(view.v, At(0x10080));
  EXPECT_EQ(view.o, At(0x10100));
  EXPECT_EQ(view.lse, reinterpret_cast<float*>(At(0x10140)));
  EXPECT_EQ(view.layer.k_pages, At(0x777000));
  EXPECT_EQ(view.layer.v_pages, At(0x778000));
  EXPECT_THAT(plan.Outputs(At(0x10000)), ElementsAre(Moves(0x10100, 0x50, 0x2000)));
}

TEST(ExtendPlan, CopiesOfPagesGoWithTheInputsAndFillsBefore) {
  const std::vector<MemoryFill> fills = {{At(0x70000), 64}, {At(0x71000), 64}};
  const std::vector<MemoryCopy> copies = {{At(0x72000), At(0x73000), 48}};
  std::vector<ExtendItem> items = {Item({At(0x1000), 32}, {}, {}), Item({At(0x3000), 16}, {}, {})};
  items[0].fills = {fills.data(), 1};
  items[1].fills = {&fills[1], 1};
  items[1].copies = copies;
  const StepTables tables(Params(), items);
  const ExtendPlan plan(items, tables, {});
  EXPECT_THAT(plan.Fills(), ElementsAre(Moves(0, 64, 0x70000), Moves(0, 64, 0x71000)));
  EXPECT_THAT(plan.CopiesAndInputs(At(0x10000)),
              ElementsAre(Moves(0x72000, 48, 0x73000), Moves(0x1000, 32, 0x10000), Moves(0x3000, 16, 0x10100)));
  EXPECT_THAT(plan.Outputs(At(0x10000)), IsEmpty());
  EXPECT_TRUE(plan.copies_in());
  EXPECT_FALSE(plan.copies_out());
}

TEST(ExtendPlan, PagesOfTheHostAreApart) {
  const std::vector<MemoryCopy> to_host = {{At(0x72000), At(0x90000), 64}, {At(0x73000), At(0x91000), 64}};
  const std::vector<MemoryCopy> from_host = {{At(0x92000), At(0x74000), 64}};
  std::vector<ExtendItem> items(2, Item({}, {}, {}));
  items[0].to_host = {to_host.data(), 1};
  items[1].to_host = {&to_host[1], 1};
  const StepTables tables(Params(), items);
  const ExtendPlan leaving(items, tables, {});
  EXPECT_THAT(leaving.PagesToHost(), ElementsAre(Moves(0x72000, 64, 0x90000), Moves(0x73000, 64, 0x91000)));
  EXPECT_THAT(leaving.PagesFromHost(), IsEmpty());
  EXPECT_THAT(leaving.CopiesAndInputs(At(0x10000)), IsEmpty());
  EXPECT_FALSE(leaving.copies_in());
  EXPECT_TRUE(leaving.copies_out());

  std::vector<ExtendItem> back = {Item({}, {}, {})};
  back[0].from_host = from_host;
  const ExtendPlan coming(back, tables, {});
  EXPECT_THAT(coming.PagesFromHost(), ElementsAre(Moves(0x92000, 64, 0x74000)));
  EXPECT_THAT(coming.PagesToHost(), IsEmpty());
  EXPECT_TRUE(coming.copies_in());
  EXPECT_FALSE(coming.copies_out());
}

}  // namespace
}  // namespace tessera
