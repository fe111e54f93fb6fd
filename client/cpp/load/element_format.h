// Elements of a tensor as they cross the wire: little-endian fp32, fp16 and bf16.
#ifndef TESSERA_CLIENT_CPP_LOAD_ELEMENT_FORMAT_H_
#define TESSERA_CLIENT_CPP_LOAD_ELEMENT_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::load {

constexpr int64_t ElementBytes(v1::DataType dtype) { return dtype == v1::DATA_TYPE_FLOAT32 ? 4 : 2; }

// "fp32", "fp16", "bf16".
absl::string_view ElementName(v1::DataType dtype);

// Writes element `index` of a tensor, rounded to nearest even. REQUIRES: the element lies within `tensor`; `value` is
// finite and, for fp16, within its range.
void StoreElement(v1::DataType dtype, float value, size_t index, absl::Span<std::byte> tensor);

// Reads element `index`. REQUIRES: the element lies within `tensor`.
float LoadElement(v1::DataType dtype, absl::Span<const std::byte> tensor, size_t index);

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_ELEMENT_FORMAT_H_
