#include "tests/server/sequence_client.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <limits>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/float8.h"
#include "kernels/reference/reference.h"
#include "tests/server/attend_messages.h"
#include "tests/server/await.h"

namespace tessera::testing {
namespace {

constexpr double kWrong = std::numeric_limits<double>::infinity();

// Of k, or v, of one token.
size_t RowElements(const CacheProfile& profile) {
  return static_cast<size_t>(profile.kv_heads) * static_cast<size_t>(profile.head_dim);
}

// As the server keeps them: rows of one layer's K (plane 0) or V (plane 1).
void AppendKept(const CacheProfile& profile, uint32_t layer, int plane, absl::Span<const float> rows,
                std::vector<float>* kept) {
  if (!profile.float8) {
    kept->insert(kept->end(), rows.begin(), rows.end());
    return;
  }
  const auto heads = static_cast<size_t>(profile.kv_heads);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t head = i / static_cast<size_t>(profile.head_dim) % heads;
    const float scale =
        profile.kv_scales.empty() ? 1.0f : profile.kv_scales[(layer * 2 + static_cast<size_t>(plane)) * heads + head];
    kept->push_back(ToFloat(ToFloat8(rows[i] / scale)) * scale);
  }
}

double Difference(double expected, double actual) {
  if (expected == actual) return 0;  // also two infinities
  const double difference = std::abs(expected - actual);
  return std::isnan(difference) ? kWrong : difference;
}

}  // namespace

ExtendCall::ExtendCall(v1::SequenceService::Stub& stub, v1::ExtendRequest request, const std::string& tenant)
    : request_(std::move(request)) {
  if (!tenant.empty()) context_.AddMetadata("tessera-tenant", tenant);
  stub.async()->Extend(&context_, &request_, &response_, [this](grpc::Status status) {
    status_ = std::move(status);
    done_.Notify();
  });
}

ExtendCall::~ExtendCall() {
  context_.TryCancel();
  done_.WaitForNotification();
}

const grpc::Status& ExtendCall::Await() {
  done_.WaitForNotification();
  return status_;
}

std::string ExtendCall::RetryPushback() const {
  const auto& metadata = context_.GetServerTrailingMetadata();
  const auto found = metadata.find("grpc-retry-pushback-ms");
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

SequenceClient::SequenceClient(const std::shared_ptr<grpc::Channel>& channel, const CacheProfile& profile,
                               std::string tenant, uint64_t seed)
    : profile_(profile), tenant_(std::move(tenant)), rng_(seed), stub_(v1::SequenceService::NewStub(channel)) {
  ABSL_RAW_CHECK(profile.dtype == DType::kFloat32, "rows are compared as float32");
}

void SequenceClient::Prepare(grpc::ClientContext& context) const {
  if (!tenant_.empty()) context.AddMetadata("tessera-tenant", tenant_);
}

grpc::Status SequenceClient::Create(uint32_t count, v1::CreateSequencesResponse* response) {
  grpc::ClientContext context;
  Prepare(context);
  // Often a channel's first call, and gRPC 1.51 at times takes an errno that something else has left ("No such file or
  // directory") for one of connect().
  context.set_wait_for_ready(true);
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLongestWait));
  v1::CreateSequencesRequest request;
  request.set_profile(profile_.name);
  request.set_count(count);
  return stub_->CreateSequences(&context, request, response);
}

KnownSequence SequenceClient::Create() {
  v1::CreateSequencesResponse response;
  const grpc::Status status = Create(1, &response);
  if (!status.ok() || response.sequences_size() != 1) {
    ABSL_RAW_LOG(FATAL, "%s has no sequence: code %d, %s", tenant_.c_str(), status.error_code(),
                 status.error_message().c_str());
  }
  const auto layers = static_cast<size_t>(profile_.layers);
  return {.handle = response.sequences(0),
          .k = std::vector<std::vector<float>>(layers),
          .v = std::vector<std::vector<float>>(layers)};
}

grpc::Status SequenceClient::Fork(const KnownSequence& source, KnownSequence* fork, int64_t length) {
  grpc::ClientContext context;
  Prepare(context);
  v1::ForkSequenceRequest request;
  request.set_sequence(source.handle);
  if (length >= 0) request.set_length(static_cast<uint64_t>(length));
  v1::ForkSequenceResponse response;
  grpc::Status status = stub_->ForkSequence(&context, request, &response);
  if (!status.ok()) return status;
  *fork = source;
  fork->handle = response.sequence();
  if (length >= 0) {
    const auto kept = static_cast<size_t>(length) * RowElements(profile_);
    for (auto* rows : {&fork->k, &fork->v}) {
      for (std::vector<float>& layer : *rows) layer.resize(std::min(layer.size(), kept));
    }
  }
  return status;
}

grpc::Status SequenceClient::Truncate(KnownSequence& sequence, uint64_t length) {
  grpc::ClientContext context;
  Prepare(context);
  v1::TruncateSequenceRequest request;
  request.set_sequence(sequence.handle);
  request.set_length(length);
  v1::TruncateSequenceResponse response;
  grpc::Status status = stub_->TruncateSequence(&context, request, &response);
  if (!status.ok()) return status;
  const size_t kept = length * RowElements(profile_);
  for (auto* rows : {&sequence.k, &sequence.v}) {
    for (std::vector<float>& layer : *rows) layer.resize(std::min(layer.size(), kept));
  }
  return status;
}

uint32_t SequenceClient::Release(const std::vector<std::string>& handles) {
  grpc::ClientContext context;
  Prepare(context);
  v1::ReleaseSequencesRequest request;
  for (const std::string& handle : handles) request.add_sequences(handle);
  v1::ReleaseSequencesResponse response;
  const grpc::Status status = stub_->ReleaseSequences(&context, request, &response);
  ABSL_RAW_CHECK(status.ok(), "a release does not fail");
  return response.released();
}

grpc::Status SequenceClient::Get(const std::string& handle, v1::GetSequenceResponse* response) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetSequenceRequest request;
  request.set_sequence(handle);
  return stub_->GetSequence(&context, request, response);
}

v1::ExtendRequest SequenceClient::Request(const std::vector<KnownEntry>& entries) {
  v1::ExtendRequest request;
  v1::ExtendHeader& header = *request.mutable_header();
  header.set_q_heads(static_cast<uint32_t>(2 * profile_.kv_heads));
  header.mutable_options()->set_return_lse(true);
  size_t q_tokens = 0;
  size_t append_tokens = 0;
  for (const KnownEntry& known : entries) {
    v1::ExtendEntry& entry = *header.add_entries();
    entry.set_sequence(known.sequence->handle);
    entry.set_layer(known.layer);
    entry.set_q_tokens(known.q_tokens);
    entry.set_append_tokens(known.append_tokens);
    q_tokens += known.q_tokens;
    append_tokens += known.append_tokens;
  }
  const auto head_bytes = static_cast<size_t>(profile_.head_dim) * sizeof(float);
  const auto kv_heads = static_cast<size_t>(profile_.kv_heads);
  request.set_q(RandomTensor(q_tokens * 2 * kv_heads * head_bytes, rng_));
  request.set_k(RandomTensor(append_tokens * kv_heads * head_bytes, rng_));
  request.set_v(RandomTensor(append_tokens * kv_heads * head_bytes, rng_));
  return request;
}

void SequenceClient::Note(const std::vector<KnownEntry>& entries, const v1::ExtendRequest& request) {
  const auto row = RowElements(profile_);
  const std::vector<float> k = Floats(request.k());
  const std::vector<float> v = Floats(request.v());
  size_t at = 0;
  for (const KnownEntry& entry : entries) {
    const size_t elements = entry.append_tokens * row;
    AppendKept(profile_, entry.layer, 0, absl::MakeConstSpan(k).subspan(at, elements), &entry.sequence->k[entry.layer]);
    AppendKept(profile_, entry.layer, 1, absl::MakeConstSpan(v).subspan(at, elements), &entry.sequence->v[entry.layer]);
    at += elements;
  }
}

double SequenceClient::Error(const std::vector<KnownEntry>& entries, const v1::ExtendRequest& request,
                             const v1::ExtendResponse& response) const {
  AttentionParams params;
  params.dtype = DType::kFloat32;
  params.kv_heads = profile_.kv_heads;
  params.q_heads = 2 * profile_.kv_heads;
  params.head_dim = profile_.head_dim;
  params.scale = 1 / std::sqrt(static_cast<float>(profile_.head_dim));
  params.mask = Mask::Causal();
  const auto row = 2 * RowElements(profile_);
  const std::vector<float> q = Floats(request.q());
  const std::vector<float> o = Floats(response.o());
  const std::vector<float> lse = Floats(response.lse());
  if (o.size() != q.size() || lse.size() * static_cast<size_t>(params.head_dim) != q.size() ||
      response.result().lengths_size() != static_cast<int>(entries.size())) {
    return kWrong;
  }
  double worst = 0;
  size_t token = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const KnownEntry& entry = entries[i];
    const std::vector<float>& k = entry.sequence->k[entry.layer];
    const auto keys = static_cast<int64_t>(k.size() / RowElements(profile_));
    if (response.result().lengths(static_cast<int>(i)) != static_cast<uint64_t>(keys)) return kWrong;
    SequenceView view;
    view.q_len = entry.q_tokens;
    view.kv_len = keys;
    view.q = q.data() + token * row;
    view.k = k.data();
    view.v = entry.sequence->v[entry.layer].data();
    view.q_strides = Strides::Packed(params.q_heads, params.head_dim);
    view.k_strides = view.v_strides = Strides::Packed(params.kv_heads, params.head_dim);
    const ReferenceOutput expected = AttendInDouble(params, view);
    for (size_t j = 0; j < expected.o.size(); ++j) {
      worst = std::max(worst, Difference(expected.o[j], o[token * row + j]));
    }
    for (size_t j = 0; j < expected.lse.size(); ++j) {
      worst = std::max(worst, Difference(expected.lse[j], lse[token * static_cast<size_t>(params.q_heads) + j]));
    }
    token += entry.q_tokens;
  }
  return worst;
}

double SequenceClient::Extend(const std::vector<KnownEntry>& entries, v1::ExtendResponse* response) {
  ExtendCall call(*stub_, Request(entries), tenant_);
  if (!call.Await().ok()) {
    std::cerr << "Extend: " << call.Await().error_code() << " " << call.Await().error_message() << "\n";
    return kWrong;
  }
  Note(entries, call.request());
  if (response != nullptr) *response = call.response();
  return Error(entries, call.request(), call.response());
}

}  // namespace tessera::testing
