#include "server/region/region_host.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr RegionLimits kAllowed = {
    .allow_shared_memory = true, .allow_cuda_ipc = true, .max_bytes = 1 << 20, .max_regions = 4};
constexpr DeviceUuid kUuid = {1, 2, 3};
constexpr CudaIpcHandle kHandle = {4, 5, 6};

// A device of one allocation, at kHandle.
class FakeMapper final : public RegionMapper {
 public:
  const DeviceUuid& uuid() const override { return kUuid; }
  absl::StatusOr<std::unique_ptr<Mapping>> Pin(absl::Span<std::byte> memory) override {
    if (!pin_error.ok()) return pin_error;
    std::memset(memory.data(), 0, memory.size());  // it is there to be pinned
    return std::make_unique<CountedMapping>(&mappings);
  }
  absl::StatusOr<Import> Open(const CudaIpcHandle& handle) override {
    if (handle != kHandle) return absl::InvalidArgumentError("no such handle");
    return Import{absl::MakeSpan(allocation), std::make_unique<CountedMapping>(&mappings)};
  }

  absl::Status pin_error;
  int mappings = 0;  // there now; read it while the host is idle
  std::vector<std::byte> allocation = std::vector<std::byte>(1000);

 private:
  struct CountedMapping final : Mapping {
    explicit CountedMapping(int* held) : count(held) { ++*count; }
    CountedMapping(const CountedMapping&) = delete;
    CountedMapping& operator=(const CountedMapping&) = delete;
    ~CountedMapping() override { --*count; }
    int* const count;
  };
};

// Opens regions and waits for what comes of it.
class Opener {
 public:
  explicit Opener(RegionHost* host) : host_(host) {}

  absl::StatusOr<RegionHost::Opened> OpenSharedMemory(uint64_t bytes, const std::string& tenant = "a") {
    return Await([&](RegionHost::OpenedFn opened) {
      host_->OpenSharedMemory(tenant, bytes, std::move(opened), [this] { gone_.Notify(); });
    });
  }
  absl::StatusOr<RegionHost::Opened> OpenCudaMemory(const CudaIpcHandle& handle, const DeviceUuid& uuid,
                                                    uint64_t bytes) {
    return Await([&](RegionHost::OpenedFn opened) {
      host_->OpenCudaMemory("a", handle, uuid, bytes, std::move(opened), [this] { gone_.Notify(); });
    });
  }
  void AwaitGone() { gone_.WaitForNotification(); }
  bool gone() const { return gone_.HasBeenNotified(); }

 private:
  template <typename OpenFn>
  absl::StatusOr<RegionHost::Opened> Await(OpenFn open) {
    absl::StatusOr<RegionHost::Opened> result;
    absl::Notification done;
    open([&](absl::StatusOr<RegionHost::Opened> opened) {
      result = std::move(opened);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  RegionHost* const host_;
  absl::Notification gone_;
};

TEST(RegionHostTest, RegionLivesAsLongAsAnybodyHoldsIt) {
  RegionHost host(kAllowed, 1, {nullptr});
  Opener opener(&host);
  auto opened = opener.OpenSharedMemory(100);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->region->kind(), RegionKind::kSharedMemory);
  EXPECT_EQ(opened->region->memory().size(), 100);
  EXPECT_EQ(host.quota().in_use().regions, 1);
  EXPECT_GE(host.quota().in_use().bytes, 4096) << "whole pages count";
  std::shared_ptr<MemoryRegion> second = opened->region;
  opened->region.reset();
  second->memory()[99] = std::byte{1};
  EXPECT_FALSE(opener.gone());
  second.reset();
  opener.AwaitGone();
  EXPECT_EQ(host.quota().in_use(), RegionQuota::Amount());
}

TEST(RegionHostTest, WhatIsNotAllowedIsAFailedPrecondition) {
  FakeMapper mapper;
  RegionHost host({}, 1, {&mapper});
  Opener opener(&host);
  EXPECT_EQ(opener.OpenSharedMemory(1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(opener.OpenCudaMemory(kHandle, kUuid, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(host.allows_cuda_memory());
}

TEST(RegionHostTest, SizesThatCannotBeHadAreRefused) {
  RegionHost host(kAllowed, 1, {nullptr});
  Opener opener(&host);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 21, uint64_t{1} << 50, ~uint64_t{0}}) {
    EXPECT_EQ(opener.OpenSharedMemory(bytes).status().code(), absl::StatusCode::kInvalidArgument) << bytes;
  }
  EXPECT_EQ(host.quota().in_use(), RegionQuota::Amount());
}

TEST(RegionHostTest, OneTenantHasItsShare) {
  RegionHost host(kAllowed, 0.5, {nullptr});
  Opener opener(&host), other(&host);
  EXPECT_EQ(opener.OpenSharedMemory((1 << 19) + 1).status().code(), absl::StatusCode::kInvalidArgument);
  const auto first = opener.OpenSharedMemory(1 << 19);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(opener.OpenSharedMemory(1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(other.OpenSharedMemory(1, "b").ok());
}

TEST(RegionHostTest, SharedMemoryIsPinnedWhereThereIsAGpu) {
  FakeMapper mapper;
  RegionHost host(kAllowed, 1, {&mapper});
  Opener opener(&host);
  auto opened = opener.OpenSharedMemory(100);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(mapper.mappings, 1);
  opened->region.reset();
  opener.AwaitGone();
  EXPECT_EQ(mapper.mappings, 0);

  mapper.pin_error = absl::ResourceExhaustedError("not so much");
  Opener second(&host);
  EXPECT_EQ(second.OpenSharedMemory(100).status(), mapper.pin_error);
  EXPECT_EQ(host.quota().in_use(), RegionQuota::Amount());
}

// Keeps the first caller waiting.
class SlowMapper final : public RegionMapper {
 public:
  const DeviceUuid& uuid() const override { return kUuid; }
  absl::StatusOr<std::unique_ptr<Mapping>> Pin(absl::Span<std::byte> /*memory*/) override {
    if (!called_.exchange(true)) {
      first_called.Notify();
      release.WaitForNotification();
    }
    return std::make_unique<Mapping>();
  }
  absl::StatusOr<Import> Open(const CudaIpcHandle& /*handle*/) override { return absl::InvalidArgumentError("none"); }

  absl::Notification first_called, release;

 private:
  std::atomic<bool> called_ = false;
};

TEST(RegionHostTest, OneTenantsRegionsDoNotKeepAnotherWaiting) {
  SlowMapper mapper;
  RegionHost host(kAllowed, 1, {&mapper});
  absl::Notification slow_opened;
  host.OpenSharedMemory(
      "slow", 1, [&](const absl::StatusOr<RegionHost::Opened>&) { slow_opened.Notify(); }, [] {});
  mapper.first_called.WaitForNotification();
  Opener other(&host);
  auto opened = other.OpenSharedMemory(1, "other");
  EXPECT_TRUE(opened.ok()) << opened.status();
  opened->region.reset();
  other.AwaitGone();
  EXPECT_FALSE(slow_opened.HasBeenNotified());
  mapper.release.Notify();
  slow_opened.WaitForNotification();
}

TEST(RegionHostTest, CudaMemoryIsWhatTheDeviceSaysItIs) {
  FakeMapper mapper;
  RegionHost host(kAllowed, 1, {nullptr, &mapper});
  EXPECT_TRUE(host.allows_cuda_memory());
  Opener opener(&host), refused(&host);
  auto opened = opener.OpenCudaMemory(kHandle, kUuid, 900);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->region->kind(), RegionKind::kCudaMemory);
  EXPECT_EQ(opened->region->device(), 1);
  EXPECT_EQ(opened->region->memory().data(), mapper.allocation.data());
  EXPECT_EQ(opened->region->memory().size(), 900);
  EXPECT_EQ(host.quota().in_use(), (RegionQuota::Amount{1, 0}));

  EXPECT_EQ(refused.OpenCudaMemory(kHandle, kUuid, 1001).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.OpenCudaMemory(kHandle, kUuid, ~uint64_t{0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.OpenCudaMemory(kHandle, kUuid, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.OpenCudaMemory({}, kUuid, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.OpenCudaMemory(kHandle, {}, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(refused.gone());
  opened->region.reset();
  opener.AwaitGone();
  EXPECT_EQ(mapper.mappings, 0) << "those that were refused have been closed, too";
}

}  // namespace
}  // namespace tessera
