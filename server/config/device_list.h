// Which of a machine's GPUs a server uses.
#ifndef TESSERA_SERVER_CONFIG_DEVICE_LIST_H_
#define TESSERA_SERVER_CONFIG_DEVICE_LIST_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// `text` is "all", or numbers separated by commas: "0,1". Empty for "all". INVALID_ARGUMENT for anything else, and for
// a number given twice.
absl::StatusOr<std::vector<int>> ParseDeviceList(absl::string_view text);

// The numbers of `text` on a machine with `count` devices, in the order given. NOT_FOUND where there is no such
// device.
absl::StatusOr<std::vector<int>> ChooseDevices(absl::string_view text, int count);

}  // namespace tessera

#endif  // TESSERA_SERVER_CONFIG_DEVICE_LIST_H_
