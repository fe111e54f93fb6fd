#include "client/cpp/load/server_description.h"

#include "absl/strings/str_cat.h"

namespace tessera::load {

std::string DescribeServer(const v1::GetServerInfoResponse& info) {
  std::string text = absl::StrCat("tessera ", info.version(), " (", info.revision(), "), backend ", info.backend());
  for (const v1::DeviceInfo& device : info.devices()) {
    absl::StrAppend(&text, "; ", device.name(), ", ", device.kernel(), " kernels, ", device.slots(), " slots");
  }
  return text;
}

}  // namespace tessera::load
