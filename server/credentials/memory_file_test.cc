#include "server/credentials/memory_file.h"

#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace tessera {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

time_t Modified(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 ? status.st_mtime : 0;
}

TEST(MemoryFileTest, PathLeadsToTheLastContents) {
  const auto file = MemoryFile::Create("first").value();
  EXPECT_EQ(ReadAll(file->path()), "first");
  std::ifstream opened_before(file->path());
  ASSERT_TRUE(file->Replace("2nd").ok());
  EXPECT_EQ(ReadAll(file->path()), "2nd");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(opened_before), {}), "first");
}

TEST(MemoryFileTest, ModificationTimeChangesWithEachReplacement) {
  const auto file = MemoryFile::Create("first").value();
  const time_t first = Modified(file->path());
  ASSERT_TRUE(file->Replace("first").ok());
  const time_t second = Modified(file->path());
  ASSERT_TRUE(file->Replace("first").ok());
  EXPECT_NE(first, 0);
  EXPECT_NE(first, second);
  EXPECT_NE(second, Modified(file->path()));
}

TEST(MemoryFileTest, OnlyItsOwnerMayReadIt) {
  const auto file = MemoryFile::Create("secret").value();
  struct stat status;
  ASSERT_EQ(stat(file->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(MemoryFileTest, ReadersNeverSeeAMixture) {
  const std::string a(100000, 'a');
  const std::string b(70000, 'b');
  const auto file = MemoryFile::Create(a).value();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; i < 500; ++i) EXPECT_TRUE(file->Replace(i % 2 == 0 ? b : a).ok());
    stop = true;
  });
  while (!stop) {
    const std::string seen = ReadAll(file->path());
    EXPECT_TRUE(seen == a || seen == b) << seen.size();
  }
  writer.join();
}

}  // namespace
}  // namespace tessera
