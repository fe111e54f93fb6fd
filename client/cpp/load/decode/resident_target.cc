#include "client/cpp/load/decode/resident_target.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/load/attend_messages.h"
#include "client/cpp/load/server_description.h"
#include "client/cpp/tessera/client.h"
#include "client/cpp/tessera/retry_after.h"

namespace tessera::load {
namespace {

absl::Status Refuse(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("decode: ", what)); }

// Fills in what the profile decides, and checks the rest against it.
absl::Status Complete(const v1::CacheProfile& profile, bool verify, DecodeShape* shape, CallShape* token) {
  if (shape->layers == 0) shape->layers = profile.layers();
  if (shape->layers > int64_t{profile.layers()})
    return Refuse(absl::StrCat("layers: the profile has ", profile.layers()));
  if (shape->q_heads == 0) shape->q_heads = profile.kv_heads();
  if (profile.kv_heads() == 0 || shape->q_heads % profile.kv_heads() != 0) {
    return Refuse(absl::StrCat("heads: must be a multiple of the profile's ", profile.kv_heads()));
  }
  const int64_t longest = shape->prefill.longest() + shape->steps.longest() * shape->tokens;
  if (longest > static_cast<int64_t>(profile.max_tokens())) {
    return Refuse(
        absl::StrCat("prefill, steps: ", longest, " tokens; the profile's sequences end at ", profile.max_tokens()));
  }
  if (verify && profile.kv_dtype() != v1::DATA_TYPE_UNSPECIFIED && profile.kv_dtype() != profile.dtype()) {
    return Refuse("verify: the profile keeps k and v rounded, with scales that are not known here");
  }
  token->q_length = token->kv_length = 1;
  token->q_heads = shape->q_heads;
  token->kv_heads = profile.kv_heads();
  token->head_dim = profile.head_dim();
  token->dtype = profile.dtype();
  return absl::OkStatus();
}

}  // namespace

// Its rows come from the bank; its answers go to memory of its own.
class ResidentTarget::Group final : public SequenceGroup {
 public:
  Group(ResidentTarget* target, SequenceSession* session, std::vector<ResidentSequence> sequences, uint64_t ordinal)
      : target_(target),
        session_(session),
        sequences_(std::move(sequences)),
        ordinal_(ordinal * static_cast<uint64_t>(target->shape_.group)),
        o_(sequences_.size() * static_cast<size_t>(target->shape_.most_tokens() * target->bank_.q_row_bytes())) {
    call_.q_heads = static_cast<uint32_t>(target->shape_.q_heads);
    call_.options.set_priority(target->options_.priority);
    call_.timeout = target->options_.timeout;
    call_.steps.resize(sequences_.size());
    for (size_t i = 0; i < sequences_.size(); ++i) call_.steps[i].sequence = &sequences_[i];
  }

  void Step(const StepRequest& request, StepCallback done) override {
    const RowBank& bank = target_->bank_;
    const auto o_bytes = static_cast<size_t>(request.tokens * bank.q_row_bytes());
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const int64_t start = RowBank::StartOf(ordinal_ + i, request.layer);
      tessera::Step& step = call_.steps[i];
      step.layer = static_cast<uint32_t>(request.layer);
      step.q = bank.Q(start, request.position, request.tokens);
      step.k = bank.K(start, request.position, request.tokens);
      step.v = bank.V(start, request.position, request.tokens);
      step.o = absl::MakeSpan(o_).subspan(i * o_bytes, o_bytes);
    }
    session_->ExtendAsync(call_, [this, request, done = std::move(done)](const absl::StatusOr<ExtendReply>& reply) {
      StepAnswer answer;
      answer.status = reply.status();
      if (reply.ok()) {
        answer.status = Examine(request, reply->result);
        answer.timing = TimingOf(reply->result.timing());
      } else {
        answer.retry_after = RetryAfter(reply.status());
      }
      done(answer);
    });
  }

 private:
  // DATA_LOSS for a length that is not what it must be.
  absl::Status Examine(const StepRequest& request, const v1::ExtendResult& result) const {
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const auto length = static_cast<int64_t>(result.lengths(static_cast<int>(i)));
      if (length != request.position + request.tokens) {
        return absl::DataLossError(
            absl::StrCat("a layer of ", request.position + request.tokens, " tokens has ", length));
      }
    }
    if (target_->sampler_.has_value()) {
      for (size_t i = 0; i < sequences_.size(); ++i) {
        target_->sampler_->Offer({RowBank::StartOf(ordinal_ + i, request.layer), request.position, request.tokens, {}},
                                 call_.steps[i].o);
      }
    }
    return absl::OkStatus();
  }

  ResidentTarget* const target_;
  SequenceSession* const session_;
  std::vector<ResidentSequence> sequences_;
  const uint64_t ordinal_;  // of the first sequence
  std::vector<std::byte> o_;
  ExtendCall call_;
};

ResidentTarget::ResidentTarget(const TesseraOptions& options, const DecodeShape& shape, const CallShape& token,
                               uint64_t seed)
    : options_(options),
      shape_(shape),
      token_(token),
      bank_(token.q_heads, token.kv_heads, token.head_dim, token.dtype, shape.most_tokens(), seed) {}

absl::StatusOr<std::unique_ptr<ResidentTarget>> ResidentTarget::Connect(const TesseraOptions& options,
                                                                        DecodeShape* shape, int64_t verify,
                                                                        uint64_t seed) {
  std::vector<std::string> tenants = options.tenants;
  if (tenants.empty()) tenants.emplace_back();
  std::vector<std::unique_ptr<SequenceSession>> sessions;
  for (const std::string& tenant : tenants) {
    ClientOptions client_options = ToClientOptions(options);
    client_options.tenant = tenant;
    absl::StatusOr<std::unique_ptr<SequenceSession>> session =
        SequenceSession::Connect(options.address, client_options);
    if (!session.ok()) return session.status();
    sessions.push_back(*std::move(session));
  }
  ClientOptions client_options = ToClientOptions(options);
  client_options.tenant = tenants.front();
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options.address, client_options);
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::GetServerInfoResponse> info = (*client)->GetServerInfo();
  if (!info.ok()) return info.status();

  const absl::StatusOr<std::vector<ResidentSequence>> probe = sessions.front()->Create(shape->profile);
  if (!probe.ok()) return probe.status();
  const v1::CacheProfile& profile = probe->front().profile();
  CallShape token;
  if (absl::Status status = Complete(profile, verify > 0, shape, &token); !status.ok()) return status;
  std::unique_ptr<ResidentTarget> target(new ResidentTarget(options, *shape, token, seed));
  target->description_ =
      absl::StrCat(DescribeServer(*info), "; profile ", profile.name(), ": ", profile.layers(), " layers, ",
                   profile.kv_heads(), " x ", profile.head_dim(), " ", ElementName(profile.dtype()), ", ",
                   profile.pages(), " pages of ", profile.page_tokens(), " tokens");
  target->sessions_ = std::move(sessions);
  if (verify > 0) target->sampler_.emplace(static_cast<size_t>(verify), seed);
  return target;
}

absl::StatusOr<std::unique_ptr<SequenceGroup>> ResidentTarget::Open(uint64_t ordinal) {
  SequenceSession* const session = sessions_[ordinal % sessions_.size()].get();
  absl::StatusOr<std::vector<ResidentSequence>> sequences =
      session->Create(shape_.profile, static_cast<uint32_t>(shape_.group));
  if (!sequences.ok()) return sequences.status();
  return std::make_unique<Group>(this, session, *std::move(sequences), ordinal);
}

std::optional<CheckResult> ResidentTarget::Check(int rows_per_answer, uint64_t seed) {
  if (!sampler_.has_value()) return std::nullopt;
  return sampler_->Check(bank_, token_, rows_per_answer, seed);
}

}  // namespace tessera::load
