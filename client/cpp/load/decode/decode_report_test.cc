#include "client/cpp/load/decode/decode_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tessera::load {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kFrom = absl::Seconds(100);

absl::Duration At(int64_t microseconds) { return kFrom + absl::Microseconds(microseconds); }

// Two tokens of two sequences in two layers, one refusal, one failure, and what is not within the window.
DecodeStats Stats(int64_t step_us, bool computes) {
  DecodeRecorder recorder(kFrom, kFrom + absl::Seconds(2));
  StepSample step = {.sent = At(0), .finished = At(step_us), .status = {}, .sequences = 2, .timing = {}};
  if (computes) step.timing = {absl::Microseconds(1), absl::Microseconds(2), absl::Microseconds(4), 3};
  for (int i = 0; i < 4; ++i) recorder.Step(step);
  step.prefill = true;
  recorder.Step(step);
  recorder.PrefillDone(At(0), At(50), 64);
  step.refused = true;
  recorder.Step(step);
  step.refused = false;
  step.status = absl::InternalError("broken");
  recorder.Step(step);
  recorder.SequencesFailed(At(70), 2, step.status);
  recorder.TokenDone(At(0), At(-40), true, At(2 * step_us), 2, 1);
  recorder.TokenDone(At(2 * step_us), At(2 * step_us), false, At(4 * step_us), 2, 1);
  recorder.SequencesDone(At(80), 2);
  recorder.SequencesDropped(At(90), 2);
  for (const absl::Duration outside : {kFrom - absl::Seconds(1), kFrom + absl::Seconds(2)}) {
    recorder.SequencesDone(outside, 100);
    recorder.SequencesDropped(outside, 100);
    recorder.TokenDone(outside, outside, false, outside, 100, 1);
    recorder.Step({.sent = outside, .finished = outside, .status = {}, .timing = {}});
    recorder.PrefillDone(outside, outside, 100);
    recorder.SequencesFailed(outside, 100, step.status);
  }
  EXPECT_EQ(recorder.tokens(), 204);
  return recorder.Take(kFrom + absl::Hours(1));
}

DecodeReport Report() {
  DecodeReport report;
  report.load = "decode, closed loop";
  report.server = "tessera 1.2.3";
  report.configuration = {{"decode", "profile=main"}};
  report.shape = *ParseDecodeShape("profile=main,layers=2,heads=4,group=2");
  report.step_up_bytes = 1000;
  report.step_down_bytes = 500;
  report.targets = {{"server", Stats(20, true)}, {"echo", Stats(10, false)}};
  report.check.emplace();
  report.check->answers = 3;
  report.check->rows = 48;
  report.check->worst = 0.25;
  return report;
}

TEST(DecodeRecorderTest, CountsWhatEndedWithinTheWindow) {
  const DecodeStats stats = Stats(20, true);
  EXPECT_EQ(stats.window, absl::Seconds(2));
  EXPECT_EQ(stats.sequences, 2);
  EXPECT_EQ(stats.failed_sequences, 2);
  EXPECT_EQ(stats.dropped_sequences, 2);
  EXPECT_EQ(stats.prefill_tokens, 64);
  EXPECT_EQ(stats.tokens, 4);
  EXPECT_EQ(stats.layer_steps, 8);
  EXPECT_EQ(stats.ok_steps, 5);
  EXPECT_EQ(stats.refused_steps, 1);
  EXPECT_EQ(stats.failed_steps, 1);
  EXPECT_DOUBLE_EQ(stats.failed_fraction(), 1.0 / 7);
  EXPECT_EQ(stats.step.count(), 4);
  EXPECT_EQ(stats.step.max(), 20000);
  EXPECT_EQ(stats.elsewhere.max(), 13000);
  EXPECT_EQ(stats.batch_requests.max(), 3);
  EXPECT_EQ(stats.token_time.max(), 40000);
  EXPECT_EQ(stats.inter_token.count(), 1);
  EXPECT_EQ(stats.inter_token.max(), 40000);
  EXPECT_EQ(stats.first_token.max(), 80000);
  EXPECT_EQ(stats.prefill.max(), 50000);

  DecodeStats both = stats;
  both.AppendRound(stats);
  EXPECT_EQ(both.window, absl::Seconds(4));
  EXPECT_EQ(both.layer_steps, 16);
  EXPECT_EQ(both.errors[absl::StatusCode::kInternal], 2);
  EXPECT_EQ(both.token_time.count(), 4);
}

TEST(DecodeReportTest, JsonHasTheFigures) {
  const nlohmann::json json = nlohmann::json::parse(RenderDecodeJson(Report()));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["decode"]["layers"], 2);
  EXPECT_EQ(json["configuration"]["decode"], "profile=main");
  ASSERT_EQ(json["targets"].size(), 2u);
  const nlohmann::json& server = json["targets"][0];
  EXPECT_EQ(server["tokens_per_second"], 2);
  EXPECT_EQ(server["layers_per_second"], 4);
  EXPECT_EQ(server["upload_bytes_per_second"], 4000);
  EXPECT_EQ(server["token_us"]["p50"], 40);
  EXPECT_EQ(server["inter_token_us"]["p99"], 40);
  EXPECT_EQ(server["errors"]["INTERNAL"], 1);
  EXPECT_EQ(server["server"]["batch_requests"]["max"], 3);
  EXPECT_FALSE(json["targets"][1].contains("server"));
  EXPECT_DOUBLE_EQ(json["server_over_echo"]["step_p50"], 2);
  EXPECT_NEAR(json["server_over_echo"]["step_p50_over_echo_and_run"].get<double>(), 20.0 / 14, 1e-3);
  EXPECT_EQ(json["check"]["rows"], 48);
}

TEST(DecodeReportTest, TextHasThemToo) {
  const std::string text = RenderDecodeText(Report());
  for (const char* part : {"server: 2.0 tokens/s, 4.0 layers/s", "failed 1 (14.2857%)", "from token to token",
                           "calls in the batch", "step p50 2.00x", "3 (48 rows), wrong rows: 0", "INTERNAL"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace tessera::load
