// Sizes, plan tables, and calls made from .npy arrays against a fake server.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/cli/byte_size.h"
#include "client/cpp/cli/npy_attend.h"
#include "client/cpp/cli/plan_tables.h"
#include "client/cpp/cli/profile_line.h"
#include "client/cpp/tessera/fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(ByteSizeTest, ReadsNumbersWithUnits) {
  const std::vector<std::pair<std::string, int64_t>> cases = {
      {"0", 0},          {"65536", 65536},          {"17B", 17}, {"192KiB", 196608}, {"192 KB", 196608},
      {"4MiB", 4 << 20}, {"2GiB", int64_t{2} << 30}};
  for (const auto& [text, bytes] : cases) {
    ByteSize size;
    std::string error;
    ASSERT_TRUE(AbslParseFlag(text, &size, &error)) << text << ": " << error;
    EXPECT_EQ(size.bytes, bytes);
  }
}

TEST(ByteSizeTest, RefusesTheRest) {
  for (const char* text :
       {"", "KiB", "-1", "1.5KiB", "1kib", "1 K", "9223372036854775807KiB", "99999999999999999999"}) {
    ByteSize size;
    std::string error;
    EXPECT_FALSE(AbslParseFlag(text, &size, &error)) << text;
    EXPECT_THAT(error, HasSubstr("192KiB"));
  }
}

TEST(ByteSizeTest, FormatsForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(196608), "192 KiB");
  EXPECT_EQ(FormatBytes(3 << 29), "1.5 GiB");
}

TEST(ProfileLineTest, NamesTheTypeOfPagesWhereItIsAnother) {
  v1::CacheProfile profile;
  profile.set_name("small");
  profile.set_layers(8);
  profile.set_kv_heads(4);
  profile.set_head_dim(64);
  profile.set_dtype(v1::DATA_TYPE_BFLOAT16);
  profile.set_kv_dtype(v1::DATA_TYPE_BFLOAT16);
  profile.set_pages(100);
  profile.set_page_tokens(16);
  profile.set_max_tokens(4096);
  profile.set_lease_ms(90'000);
  EXPECT_EQ(FormatProfile(profile),
            "small: 8 layers, 4 heads of 64 bfloat16, 100 pages of 16 tokens, sequences of 4096, lease 1m30s");
  profile.set_kv_dtype(v1::DATA_TYPE_FLOAT8_E4M3);
  EXPECT_EQ(FormatProfile(profile),
            "small: 8 layers, 4 heads of 64 bfloat16 kept as float8_e4m3, 100 pages of 16 tokens, sequences of 4096, "
            "lease 1m30s");
}

TEST(PlanTablesTest, ShowsBothTablesWithTotals) {
  v1::PlanTilesRequest request;
  request.set_sram_bytes(196608);
  request.set_head_dim(128);
  request.set_dtype(v1::DATA_TYPE_FLOAT16);
  request.set_stages(1);
  request.set_sequence_length(4096);
  v1::PlanTilesResponse plan;
  plan.set_tile(128);
  plan.set_fits(true);
  plan.set_total_bytes(164864);
  v1::TileComponent& component = *plan.add_components();
  component.set_name("S");
  component.set_bytes(32768);
  constexpr uint64_t kMegabyte = 1 << 20;
  const auto add_row = [&plan](const std::string& operand, uint64_t standard_read, uint64_t standard_write,
                               uint64_t tiled_read, uint64_t tiled_write) {
    v1::TrafficRow& row = *plan.add_traffic();
    row.set_operand(operand);
    row.set_standard_read_bytes(standard_read * kMegabyte);
    row.set_standard_write_bytes(standard_write * kMegabyte);
    row.set_tiled_read_bytes(tiled_read * kMegabyte);
    row.set_tiled_write_bytes(tiled_write * kMegabyte);
  };
  add_row("K", 67, 0, 65, 0);
  add_row("O", 0, 65, 0, 1);
  const std::string text = FormatPlan(request, plan);
  EXPECT_THAT(text, HasSubstr("B = 128 rows, d = 128, float16, 1 stage\n"));
  EXPECT_THAT(text, HasSubstr("  S                 32768         32\n"));
  EXPECT_THAT(text, HasSubstr("  total            164864        161  fits in 192 KiB\n"));
  EXPECT_THAT(text, HasSubstr("  O                         -             65            -            1\n"));
  EXPECT_THAT(text, HasSubstr("  total                    67             65           65            1\n"));
}

NpyArray Array(const std::string& descr, std::vector<int64_t> shape) {
  NpyArray array;
  array.descr = descr;
  array.shape = std::move(shape);
  array.data.resize(static_cast<size_t>(array.elements() * NpyElementBytes(descr)), std::byte{3});
  return array;
}

class NpyAttendTest : public ::testing::Test {
 protected:
  NpyAttendTest() {
    server_.SetJudge([this](const FakeServer::Call& call) {
      seen_ = call.header;
      return FakeServer::Decision();
    });
    client_ = *Client::Connect(server_.target(), {});
  }

  absl::StatusOr<NpyAnswer> Attend(const v1::AttendHeader& header, const NpyArray& q, const NpyArray& k,
                                   const NpyArray& v) {
    return AttendNpy(client_.get(), header, q, k, v, absl::Seconds(10));
  }

  v1::AttendHeader seen_;
  FakeServer server_;
  std::unique_ptr<Client> client_;
};

TEST_F(NpyAttendTest, TakesShapeAndTypeFromTheArrays) {
  const std::vector<std::pair<std::string, v1::DataType>> cases = {{"<f4", v1::DATA_TYPE_FLOAT32},
                                                                   {"<f2", v1::DATA_TYPE_FLOAT16},
                                                                   {"<V2", v1::DATA_TYPE_BFLOAT16},
                                                                   {"<u2", v1::DATA_TYPE_BFLOAT16}};
  for (const auto& [descr, dtype] : cases) {
    v1::AttendHeader header;
    header.mutable_options()->set_return_lse(true);
    const absl::StatusOr<NpyAnswer> answer =
        Attend(header, Array(descr, {5, 4, 16}), Array(descr, {7, 2, 16}), Array(descr, {7, 2, 16}));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(seen_.dtype(), dtype);
    EXPECT_EQ(seen_.q_heads(), 4u);
    EXPECT_EQ(seen_.kv_heads(), 2u);
    EXPECT_EQ(seen_.head_dim(), 16u);
    EXPECT_THAT(seen_.q_lengths(), testing::ElementsAre(5));
    EXPECT_THAT(seen_.kv_lengths(), testing::ElementsAre(7));
    EXPECT_EQ(answer->o.descr, descr);
    EXPECT_THAT(answer->o.shape, testing::ElementsAre(5, 4, 16));
    EXPECT_THAT(answer->o.data, testing::Each(std::byte{4}));  // the fake's answer
    EXPECT_THAT(answer->lse.shape, testing::ElementsAre(5, 4));
    EXPECT_EQ(answer->lse.data.size(), 80u);
  }
}

TEST_F(NpyAttendTest, KeepsLengthsThatAreGiven) {
  v1::AttendHeader header;
  header.add_q_lengths(2);
  header.add_q_lengths(3);
  const NpyArray array = Array("<f4", {5, 1, 8});
  const absl::StatusOr<NpyAnswer> answer = Attend(header, array, array, array);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(seen_.q_lengths(), testing::ElementsAre(2, 3));
  EXPECT_TRUE(seen_.kv_lengths().empty());
  EXPECT_EQ(answer->lse.elements(), 0);
}

TEST_F(NpyAttendTest, RefusesArraysThatDoNotFit) {
  const NpyArray good = Array("<f4", {5, 2, 8});
  const auto refused = [&](const NpyArray& q, const NpyArray& k, const NpyArray& v, const std::string& message) {
    const absl::Status status = Attend({}, q, k, v).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  refused(Array("<f4", {5, 16}), good, good, "q has shape (5, 16)");
  refused(Array("<f4", {1 << 30, 1 << 30, 0}), good, good, "q has shape (1073741824, 1073741824, 0)");
  refused(good, Array("<f2", {5, 2, 8}), good, "k has elements of type '<f2'");
  refused(good, good, Array("<f4", {5, 2, 16}), "v has head_dim 16");
  refused(good, good, Array("<f4", {4, 2, 8}), "v must have the shape of k");
  EXPECT_EQ(server_.calls(), 0);
}

}  // namespace
}  // namespace tessera
