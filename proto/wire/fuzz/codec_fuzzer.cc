// libFuzzer entry: aborts where the codec and protobuf disagree.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/internal/raw_logging.h"
#include "proto/wire/fuzz/differential.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::optional<std::string> difference =
      tessera::wire::DifferenceFromProtobuf(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (difference.has_value()) ABSL_RAW_LOG(FATAL, "%s", difference->c_str());
  return 0;
}
