#include "server/config/device_list.h"

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera {

absl::StatusOr<std::vector<int>> ParseDeviceList(absl::string_view text) {
  std::vector<int> devices;
  if (text == "all") return devices;
  for (const absl::string_view number : absl::StrSplit(text, ',')) {
    int device;
    if (!absl::SimpleAtoi(number, &device) || device < 0) {
      return absl::InvalidArgumentError(absl::StrCat("device: ", text, " is neither all nor numbers like 0,1"));
    }
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
      return absl::InvalidArgumentError(absl::StrCat("device: ", device, " is given twice"));
    }
    devices.push_back(device);
  }
  return devices;
}

absl::StatusOr<std::vector<int>> ChooseDevices(absl::string_view text, int count) {
  absl::StatusOr<std::vector<int>> devices = ParseDeviceList(text);
  if (!devices.ok()) return devices;
  if (devices->empty()) {
    devices->resize(static_cast<size_t>(count));
    std::iota(devices->begin(), devices->end(), 0);
  }
  for (const int device : *devices) {
    if (device >= count) {
      return absl::NotFoundError(absl::StrCat("device: there is no ", device, ", the machine has ", count));
    }
  }
  return devices;
}

}  // namespace tessera
