#include "server/config/device_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(DeviceListTest, AllOrNumbersInTheOrderGiven) {
  EXPECT_THAT(*ChooseDevices("all", 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(*ChooseDevices("2,0", 3), ElementsAre(2, 0));
  EXPECT_THAT(*ChooseDevices("1", 2), ElementsAre(1));
}

TEST(DeviceListTest, DeviceThatIsNotThereIsNotFound) {
  EXPECT_EQ(ChooseDevices("0,2", 2).status().code(), absl::StatusCode::kNotFound);
}

TEST(DeviceListTest, NonsenseIsInvalid) {
  for (const char* text : {"", "none", "0,", ",1", "-1", "0;1", "1,1", "0 1", "all,1"}) {
    EXPECT_EQ(ChooseDevices(text, 8).status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(ParseDeviceList(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace tessera
