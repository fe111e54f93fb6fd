// What shall go wrong, and when: the script of a FaultDevice.
#ifndef TESSERA_SERVER_DEVICE_FAULT_SCRIPT_H_
#define TESSERA_SERVER_DEVICE_FAULT_SCRIPT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tessera {

struct FaultRule {
  enum class Point : uint8_t {
    kStage,    // an allocation of staging memory
    kCopyIn,   // a batch, before its inputs are read
    kRun,      // a batch, before its kernel
    kCopyOut,  // a batch, after its outputs have been written
  };
  enum class Action : uint8_t {
    kFail,    // with `code`; concerns this batch or allocation alone
    kSticky,  // the device is lost
    kHang,    // until the test releases it, or for ever
    kDelay,   // for `delay` of the clock
  };

  static constexpr int kAnyDevice = -1;

  Point point = Point::kRun;
  // The allocations or batches it strikes, counted from 1, both ends included.
  int64_t first = 1;
  int64_t last = 1;
  Action action = Action::kFail;
  absl::StatusCode code = absl::StatusCode::kInternal;
  absl::Duration delay;
  // DeviceInfo::index of the device it strikes.
  int device = kAnyDevice;

  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

// At each point the first rule that strikes applies.
struct FaultScript {
  std::vector<FaultRule> rules;
};

// Rules [DEVICE/]POINT@WHICH=ACTION, separated by ';', spaces ignored:
//   DEVICE  its index; without one, each device is struck
//   POINT   stage | copy_in | run | copy_out
//   WHICH   3 | 3-5 | 3+ | *
//   ACTION  a status code in small letters (resource_exhausted, internal, ...) | sticky | hang | delay:20ms
// For example "run@3=resource_exhausted; 1/run@7=sticky". Staging allocations can only fail with a code. An empty text
// is an empty script. INVALID_ARGUMENT naming the rule that makes no sense.
absl::StatusOr<FaultScript> ParseFaultScript(absl::string_view text);

// The rules of one device. Staging memory is common to all devices: its rules are the first one's.
FaultScript ScriptOf(const FaultScript& script, int device);

}  // namespace tessera

#endif  // TESSERA_SERVER_DEVICE_FAULT_SCRIPT_H_
