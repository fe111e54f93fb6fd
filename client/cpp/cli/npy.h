// Reads and writes NumPy's .npy files of the element types that Tessera knows.
#ifndef TESSERA_CLIENT_CPP_CLI_NPY_H_
#define TESSERA_CLIENT_CPP_CLI_NPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// A packed array in C order, little-endian.
struct NpyArray {
  // As in the file: "<f4", "<f2", or for bfloat16 "<u2" and "|V2", the latter being what ml_dtypes writes.
  std::string descr;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  int64_t elements() const;
};

// Bytes of an element; 0 for a descr that is none of those above. "<V2", "=f4" and the like are the same types.
int64_t NpyElementBytes(absl::string_view descr);

// INVALID_ARGUMENT for anything that is not such an array: another type, Fortran order, a version other than 1 to 3,
// or data of another size than the header says.
absl::StatusOr<NpyArray> ParseNpy(absl::string_view bytes);

// The file's content.
std::string FormatNpy(const NpyArray& array);

// As above, from and to files; NOT_FOUND or UNKNOWN where the file cannot be used. Messages name the file.
absl::StatusOr<NpyArray> ReadNpy(const std::string& path);
absl::Status WriteNpy(const std::string& path, const NpyArray& array);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_CLI_NPY_H_
