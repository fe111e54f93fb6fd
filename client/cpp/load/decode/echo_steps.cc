#include "client/cpp/load/decode/echo_steps.h"

#include <utility>

namespace tessera::load {

class EchoSteps::Group final : public SequenceGroup {
 public:
  Group(EchoTarget* echo, uint64_t ordinal) : echo_(echo), ordinal_(ordinal) {}

  void Step(const StepRequest&, StepCallback done) override {
    echo_->Issue({0, ordinal_}, [done = std::move(done)](const Answer& answer) {
      done({answer.status, absl::ZeroDuration(), answer.timing});
    });
  }

 private:
  EchoTarget* const echo_;
  const uint64_t ordinal_;
};

EchoSteps::EchoSteps(const EchoOptions& options, const CallShape& step, uint64_t seed)
    : shapes_({step}), payloads_(shapes_, 4, seed), echo_(options, shapes_, &payloads_) {}

absl::StatusOr<std::unique_ptr<SequenceGroup>> EchoSteps::Open(uint64_t ordinal) {
  return std::make_unique<Group>(&echo_, ordinal);
}

}  // namespace tessera::load
