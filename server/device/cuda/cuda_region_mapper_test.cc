#include "server/device/cuda/cuda_region_mapper.h"

#include <array>
#include <cstring>

#include "gtest/gtest.h"
#include "server/device/cuda/testing/fake_cuda_calls.h"

namespace tessera {
namespace {

class CudaRegionMapperTest : public ::testing::Test {
 protected:
  FakeCudaCalls calls_{2, 1 << 20};
  CudaRegionMapper mapper_{1, FakeCudaCalls::UuidOf(1), &calls_};
};

TEST_F(CudaRegionMapperTest, OpensWhatAnotherProcessExportedAndClosesItOnce) {
  const CudaIpcHandle handle = calls_.Export(1, 5000);
  {
    const absl::StatusOr<RegionMapper::Import> import = mapper_.Open(handle);
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_EQ(import->memory.data(), calls_.Exported(handle));
    EXPECT_EQ(import->memory.size(), 5000);
    EXPECT_EQ(calls_.counts().imports, 1);
  }
  EXPECT_EQ(calls_.counts().imports, 0);
}

TEST_F(CudaRegionMapperTest, AHandleThatNamesNothingIsTheCallersErrorAndForgotten) {
  const absl::StatusOr<RegionMapper::Import> import = mapper_.Open(CudaIpcHandle{});
  EXPECT_EQ(import.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(calls_.errors_forgotten(), 1);
  EXPECT_TRUE(mapper_.Open(calls_.Export(1, 16)).ok());
}

TEST_F(CudaRegionMapperTest, AHandleOfAnotherDeviceIsTheCallersError) {
  EXPECT_EQ(mapper_.Open(calls_.Export(0, 16)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CudaRegionMapperTest, ALackOfMemoryIsNotTheCallersError) {
  calls_.FailNext("OpenIpc", absl::ResourceExhaustedError("full"));
  EXPECT_EQ(mapper_.Open(calls_.Export(1, 16)).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CudaRegionMapperTest, PinsHostMemoryForAsLongAsTheMappingLives) {
  alignas(4096) std::array<std::byte, 4096> memory;
  {
    const auto mapping = mapper_.Pin(absl::MakeSpan(memory));
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    EXPECT_EQ(calls_.counts().registrations, 1);
  }
  EXPECT_EQ(calls_.counts().registrations, 0);
  calls_.FailNext("RegisterPinned", absl::InternalError("not so much"));
  EXPECT_EQ(mapper_.Pin(absl::MakeSpan(memory)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(calls_.errors_forgotten(), 1);
}

}  // namespace
}  // namespace tessera
