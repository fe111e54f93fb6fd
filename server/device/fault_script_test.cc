#include "server/device/fault_script.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using Action = FaultRule::Action;
using Point = FaultRule::Point;

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

FaultRule Rule(Point point, int64_t first, int64_t last, Action action,
               absl::StatusCode code = absl::StatusCode::kInternal, absl::Duration delay = {}) {
  return {point, first, last, action, code, delay};
}

TEST(FaultScript, ParsesEveryForm) {
  const absl::StatusOr<FaultScript> script = ParseFaultScript(
      " run@3=resource_exhausted;copy_in@2-4=internal; copy_out@5+=sticky ;run@*=hang;run@1=delay:20ms; "
      "stage@7=aborted;");
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(
      script->rules,
      testing::ElementsAre(Rule(Point::kRun, 3, 3, Action::kFail, absl::StatusCode::kResourceExhausted),
                           Rule(Point::kCopyIn, 2, 4, Action::kFail), Rule(Point::kCopyOut, 5, kLast, Action::kSticky),
                           Rule(Point::kRun, 1, kLast, Action::kHang),
                           Rule(Point::kRun, 1, 1, Action::kDelay, absl::StatusCode::kInternal, absl::Milliseconds(20)),
                           Rule(Point::kStage, 7, 7, Action::kFail, absl::StatusCode::kAborted)));
}

TEST(FaultScript, RulesOfOneDevice) {
  const FaultScript script = *ParseFaultScript("1/run@3=sticky; run@4=internal; 12/copy_in@1=hang; stage@1=internal");
  ASSERT_EQ(script.rules.size(), 4);
  EXPECT_EQ(script.rules[0].device, 1);
  EXPECT_EQ(script.rules[1].device, FaultRule::kAnyDevice);
  const auto& rules = script.rules;
  EXPECT_THAT(ScriptOf(script, 0).rules, testing::ElementsAre(rules[1], rules[3]));
  EXPECT_THAT(ScriptOf(script, 1).rules, testing::ElementsAre(rules[0], rules[1]));
  EXPECT_THAT(ScriptOf(script, 12).rules, testing::ElementsAre(rules[1], rules[2]));
}

TEST(FaultScript, EmptyTextIsAnEmptyScript) {
  EXPECT_TRUE(ParseFaultScript("")->rules.empty());
  EXPECT_TRUE(ParseFaultScript(" ; ")->rules.empty());
}

TEST(FaultScript, RefusesNonsenseByName) {
  for (const char* text : {"run",
                           "run@=internal",
                           "run@3",
                           "run@3=",
                           "run@0=internal",
                           "run@-1=internal",
                           "run@4-2=internal",
                           "run@2-=sticky+",
                           "run@3+4=internal",
                           "kernel@1=internal",
                           "run@1=ok",
                           "run@1=explode",
                           "run@1=delay:",
                           "run@1=delay:-1s",
                           "run@1=delay:x",
                           "stage@1=sticky",
                           "stage@1=hang",
                           "run@1=INTERNAL",
                           "/run@1=internal",
                           "-1/run@1=internal",
                           "x/run@1=internal",
                           "run @1=internal"}) {
    const absl::Status status = ParseFaultScript(std::string("run@1=internal;") + text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), testing::HasSubstr(std::string("\"") + text + "\""));
  }
}

}  // namespace
}  // namespace tessera
