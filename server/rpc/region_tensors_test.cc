#include "server/rpc/region_tensors.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Memory that is never touched.
class FakeRegion final : public MemoryRegion {
 public:
  FakeRegion(RegionKind kind, int device, size_t address, size_t bytes)
      : kind_(kind), device_(device), memory_(reinterpret_cast<std::byte*>(address), bytes) {}
  RegionKind kind() const override { return kind_; }
  absl::Span<std::byte> memory() const override { return memory_; }
  int device() const override { return device_; }

 private:
  const RegionKind kind_;
  const int device_;
  const absl::Span<std::byte> memory_;
};

std::byte* At(size_t address) { return reinterpret_cast<std::byte*>(address); }

// q and o of 64 bytes, k and v of 128, an LSE of 16.
AttendShape Shape() {
  AttendShape shape;
  shape.return_lse = true;
  shape.q_bytes = 64;
  shape.kv_bytes = 128;
  shape.lse_bytes = 16;
  return shape;
}

void Place(v1::RegionTensor* tensor, uint64_t region, uint64_t offset, uint64_t bytes) {
  tensor->set_region(region);
  tensor->set_offset(offset);
  tensor->set_bytes(bytes);
}

class RegionTensorsTest : public ::testing::Test {
 protected:
  RegionTensorsTest() {
    Add(1, RegionKind::kSharedMemory, -1, 0x10000, 0x1000);
    Add(2, RegionKind::kSharedMemory, -1, 0x20000, 100);
    Add(3, RegionKind::kCudaMemory, 0, 0x30000, 0x1000);
    Add(4, RegionKind::kCudaMemory, 1, 0x40000, 0x1000);
    Add(5, RegionKind::kSharedMemory, -1, 0x10000, 0x1000);  // the same memory as 1
    Place(call_.mutable_q(), 1, 0, 64);
    Place(call_.mutable_k(), 1, 64, 128);
    Place(call_.mutable_v(), 1, 192, 128);
    Place(call_.mutable_o(), 1, 320, 64);
    Place(call_.mutable_lse(), 1, 384, 16);
  }

  void Add(uint64_t id, RegionKind kind, int device, size_t address, size_t bytes) {
    regions_.emplace(id, std::make_shared<FakeRegion>(kind, device, address, bytes));
  }
  absl::StatusOr<ResolvedTensors> Resolve() { return ResolveTensors(call_, Shape(), regions_); }
  void ExpectRefused(absl::StatusCode code, const std::string& text) {
    const absl::Status status = Resolve().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  RegionTable regions_;
  v1::AttendRegions call_;
};

TEST_F(RegionTensorsTest, TensorsLieWhereTheMessageSays) {
  Place(call_.mutable_v(), 2, 0, 100);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "v.bytes: 100, the header's shape needs 128");
  Place(call_.mutable_v(), 5, 0x1000 - 128, 128);
  const absl::StatusOr<ResolvedTensors> resolved = Resolve();
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const TensorPlaces& places = resolved->places;
  EXPECT_EQ(places.q, At(0x10000));
  EXPECT_EQ(places.k, At(0x10040));
  EXPECT_EQ(places.v, At(0x10f80));
  EXPECT_EQ(places.o, At(0x10140));
  EXPECT_EQ(places.lse, At(0x10180));
  EXPECT_FALSE(places.on_device);
  EXPECT_EQ(resolved->device, -1);
  EXPECT_EQ(resolved->memory, RegionMemory::kSharedMemory);
  EXPECT_EQ(resolved->regions.size(), 5);
}

TEST_F(RegionTensorsTest, AGpusTensorsAreBoundToIt) {
  for (v1::RegionTensor* tensor :
       {call_.mutable_q(), call_.mutable_k(), call_.mutable_v(), call_.mutable_o(), call_.mutable_lse()}) {
    tensor->set_region(4);
  }
  const absl::StatusOr<ResolvedTensors> resolved = Resolve();
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_TRUE(resolved->places.on_device);
  EXPECT_EQ(resolved->device, 1);
  EXPECT_EQ(resolved->memory, RegionMemory::kCudaMemory);
  call_.mutable_o()->set_region(3);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "o.region");
  call_.mutable_o()->set_region(1);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "o.region");
}

TEST_F(RegionTensorsTest, UnknownRegionsAreNotFound) {
  call_.mutable_k()->set_region(9);
  ExpectRefused(absl::StatusCode::kNotFound, "k.region");
  call_.mutable_k()->set_region(0);
  ExpectRefused(absl::StatusCode::kNotFound, "k.region");
  call_.clear_q();
  ExpectRefused(absl::StatusCode::kInvalidArgument, "q.bytes: 0");
}

TEST_F(RegionTensorsTest, NothingBeyondTheRegionIsReached) {
  for (const uint64_t offset : {uint64_t{0x1000 - 48}, uint64_t{0x1000}, uint64_t{0x1010}, uint64_t{1} << 63,
                                ~uint64_t{0} - 63, ~uint64_t{15}}) {
    call_.mutable_q()->set_offset(offset);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "reach beyond");
  }
  call_.mutable_q()->set_offset(0x1000 - 64);
  EXPECT_TRUE(Resolve().ok());
}

TEST_F(RegionTensorsTest, OffsetsAreAligned) {
  for (const uint64_t offset : {1, 8, 15, 24}) {
    call_.mutable_q()->set_offset(offset);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "q.offset");
  }
}

TEST_F(RegionTensorsTest, OutputsOverlapNothingThoughTheyComeByAnotherRegion) {
  for (const uint64_t region : {1, 5}) {
    for (const auto& [offset, other] :
         {std::pair<uint64_t, const char*>{0, "q"}, {48, "q"}, {64, "k"}, {176, "k"}, {304, "v"}}) {
      Place(call_.mutable_o(), region, offset, 64);
      ExpectRefused(absl::StatusCode::kInvalidArgument, std::string("o: overlaps ") + other);
    }
  }
  Place(call_.mutable_o(), 1, 320, 64);
  Place(call_.mutable_lse(), 5, 320, 16);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "lse: overlaps o");
  Place(call_.mutable_lse(), 5, 368, 16);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "lse: overlaps o");
  Place(call_.mutable_lse(), 5, 304, 16);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "lse: overlaps v");
}

TEST_F(RegionTensorsTest, InputsMayOverlap) {
  Place(call_.mutable_v(), 1, 64, 128);
  EXPECT_TRUE(Resolve().ok());
}

TEST_F(RegionTensorsTest, TensorsWithoutBytesNeedNoRegion) {
  const absl::StatusOr<ResolvedTensors> resolved = ResolveTensors({}, AttendShape(), regions_);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->places.q, nullptr);
  EXPECT_EQ(resolved->places.o, nullptr);
  EXPECT_TRUE(resolved->regions.empty());
  EXPECT_EQ(resolved->device, -1);
}

TEST_F(RegionTensorsTest, AnLseThatIsNotWantedIsNotWritten) {
  AttendShape shape = Shape();
  shape.return_lse = false;
  shape.lse_bytes = 0;
  EXPECT_EQ(ResolveTensors(call_, shape, regions_).status().code(), absl::StatusCode::kInvalidArgument);
  call_.clear_lse();
  const absl::StatusOr<ResolvedTensors> resolved = ResolveTensors(call_, shape, regions_);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->places.lse, nullptr);
}

}  // namespace
}  // namespace tessera
