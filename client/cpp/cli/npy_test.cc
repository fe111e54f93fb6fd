#include "client/cpp/cli/npy.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What numpy.save writes for numpy.arange(6, dtype='float16').reshape(1, 2, 3), byte for byte.
std::string SavedByNumPy() {
  std::string file("\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, 3), }", 72);
  file.append(55, ' ');
  file += '\n';
  file.append("\x00\x00\x00\x3c\x00\x40\x00\x42\x00\x44\x00\x45", 12);
  return file;
}

std::string WithHeader(const std::string& dict, size_t data_bytes) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(dict.size());
  file += '\0';
  return file + dict + std::string(data_bytes, 'd');
}

TEST(NpyTest, ReadsWhatNumPyWrites) {
  const absl::StatusOr<NpyArray> array = ParseNpy(SavedByNumPy());
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->descr, "<f2");
  EXPECT_THAT(array->shape, ElementsAre(1, 2, 3));
  EXPECT_EQ(array->elements(), 6);
  EXPECT_EQ(array->data.size(), 12u);
  EXPECT_EQ(array->data[11], std::byte{0x45});
}

TEST(NpyTest, WritesWhatNumPyWrites) {
  const absl::StatusOr<NpyArray> array = ParseNpy(SavedByNumPy());
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(FormatNpy(*array), SavedByNumPy());
}

TEST(NpyTest, ShapesOfEveryRankSurvive) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {5}, {0, 3}, {2, 1, 4}, {1, 1, 1, 1, 7}}) {
    NpyArray array;
    array.descr = "<f4";
    array.shape = shape;
    array.data.resize(static_cast<size_t>(array.elements()) * 4, std::byte{9});
    const std::string file = FormatNpy(array);
    EXPECT_EQ((file.size() - array.data.size()) % 64, 0u);
    const absl::StatusOr<NpyArray> read = ParseNpy(file);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->shape, shape);
    EXPECT_EQ(read->data, array.data);
  }
}

TEST(NpyTest, ReadsLongHeadersOfVersion2) {
  std::string dict = "{'descr': '<V2', 'fortran_order': False, 'shape': (3,), }";
  dict.append(100000, ' ');
  std::string file("\x93NUMPY\x02\x00", 8);
  const uint32_t length = static_cast<uint32_t>(dict.size());
  file.append(reinterpret_cast<const char*>(&length), 4);
  const absl::StatusOr<NpyArray> array = ParseNpy(file + dict + "abcdef");
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->descr, "<V2");
}

TEST(NpyTest, RefusesEverythingElseAndSaysWhy) {
  const auto dict = [](const std::string& descr, const std::string& order, const std::string& shape) {
    return absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }");
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not a .npy file"},
      {"\x93NUMPX\x01garbage", "not a .npy file"},
      {std::string("\x93NUMPY\x09\x00\x00\x00", 10), "version 9"},
      {std::string("\x93NUMPY\x01\x00\xff", 9), "within its header"},
      {std::string("\x93NUMPY\x01\x00\xff\x00{}", 12), "within its header"},
      {WithHeader(dict("'<f8'", "False", "(1,)"), 8), "'<f8'"},
      {WithHeader(dict("'>f4'", "False", "(1,)"), 4), "'>f4'"},
      {WithHeader(dict("[('a', '<f4')]", "False", "(1,)"), 4), "no simple element type"},
      {WithHeader(dict("'<f4'", "True", "(1,)"), 4), "Fortran order"},
      {WithHeader(dict("'<f4'", "False", "(-1,)"), 4), "no readable shape"},
      {WithHeader(dict("'<f4'", "False", "(1, x)"), 4), "no readable shape"},
      {WithHeader(dict("'<f4'", "False", "(2,)"), 7), "7 bytes of data"},
      {WithHeader(dict("'<f4'", "False", "(4611686018427387904, 4)"), 0), "0 bytes of data"},
  };
  for (const auto& [file, message] : cases) {
    const absl::Status status = ParseNpy(file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
}

TEST(NpyTest, EveryTruncationIsRefused) {
  const std::string file = SavedByNumPy();
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(ParseNpy(file.substr(0, length)).ok()) << length;
  }
}

TEST(NpyTest, FilesRoundTripAndErrorsNameThem) {
  const std::string path = absl::StrCat(testing::TempDir(), "/npy_test.npy");
  const absl::StatusOr<NpyArray> array = ParseNpy(SavedByNumPy());
  ASSERT_TRUE(array.ok());
  ASSERT_EQ(WriteNpy(path, *array), absl::OkStatus());
  const absl::StatusOr<NpyArray> read = ReadNpy(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->data, array->data);
  EXPECT_THAT(ReadNpy("/no/such.npy").status().message(), HasSubstr("/no/such.npy"));
  EXPECT_THAT(ReadNpy(testing::TempDir()).status().message(), HasSubstr("not a .npy file")) << "a directory";
  EXPECT_THAT(WriteNpy("/no/such/dir.npy", *array).message(), HasSubstr("/no/such/dir.npy"));
}

}  // namespace
}  // namespace tessera
