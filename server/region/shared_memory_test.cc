#include "server/region/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

int OpenShared(const SharedMemory& shared) { return open(shared.path().c_str(), O_RDWR | O_CLOEXEC); }

TEST(SharedMemoryTest, WhoOpensThePathSharesTheBytes) {
  const auto shared = SharedMemory::Create(10000);
  ASSERT_TRUE(shared.ok()) << shared.status();
  const absl::Span<std::byte> memory = (*shared)->memory();
  EXPECT_EQ(memory.size(), SharedMemory::RoundedUp(10000));
  for (const std::byte byte : memory) ASSERT_EQ(byte, std::byte{0});

  const int fd = OpenShared(**shared);
  ASSERT_GE(fd, 0);
  void* const other = mmap(nullptr, memory.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(other, MAP_FAILED);
  static_cast<std::byte*>(other)[9999] = std::byte{7};
  EXPECT_EQ(memory[9999], std::byte{7});
  memory[0] = std::byte{8};
  EXPECT_EQ(static_cast<std::byte*>(other)[0], std::byte{8});
  munmap(other, memory.size());
  close(fd);
}

TEST(SharedMemoryTest, WhoSharesItCanNeitherShrinkNorGrowIt) {
  const auto shared = SharedMemory::Create(2 * SharedMemory::PageBytes());
  ASSERT_TRUE(shared.ok());
  const int fd = OpenShared(**shared);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(ftruncate(fd, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(3 * SharedMemory::PageBytes())), -1);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1) << "nor take writing away";
  // A hole is zeros, not a fault.
  EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(SharedMemory::PageBytes())),
            0);
  EXPECT_EQ((*shared)->memory()[0], std::byte{0});
  close(fd);
}

TEST(SharedMemoryTest, NobodyKeepsItsPagesWhenItIsGone) {
  auto shared = SharedMemory::Create(10 * SharedMemory::PageBytes());
  ASSERT_TRUE(shared.ok());
  const int fd = OpenShared(**shared);
  ASSERT_GE(fd, 0);
  const size_t size = (*shared)->memory().size();
  void* const other = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(other, MAP_FAILED);
  static_cast<std::byte*>(other)[0] = std::byte{7};
  struct stat file;
  ASSERT_EQ(fstat(fd, &file), 0);
  EXPECT_GT(file.st_blocks, 0);
  shared->reset();
  ASSERT_EQ(fstat(fd, &file), 0);
  EXPECT_EQ(file.st_blocks, 0);
  EXPECT_EQ(static_cast<std::byte*>(other)[0], std::byte{0}) << "and no SIGBUS";
  munmap(other, size);
  close(fd);
}

TEST(SharedMemoryTest, PathLeadsToTheNameAndToNothingOnceHidden) {
  const auto shared = SharedMemory::Create(1);
  ASSERT_TRUE(shared.ok());
  const std::string path = (*shared)->path();
  std::array<char, 256> link{};
  ASSERT_GT(readlink(path.c_str(), link.data(), link.size() - 1), 0);
  EXPECT_EQ(std::string(link.data()), "/memfd:" + (*shared)->name() + " (deleted)");
  (*shared)->memory()[0] = std::byte{5};
  (*shared)->Hide();
  (*shared)->Hide();
  EXPECT_EQ((*shared)->path(), "");
  EXPECT_EQ(open(path.c_str(), O_RDWR | O_CLOEXEC), -1);
  EXPECT_EQ((*shared)->memory()[0], std::byte{5});
}

TEST(SharedMemoryTest, NamesAreNeverTheSame) {
  const auto first = SharedMemory::Create(1);
  const auto second = SharedMemory::Create(1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->name(), (*second)->name());
}

}  // namespace
}  // namespace tessera
