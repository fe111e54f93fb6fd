#include "client/cpp/tessera/fake_server.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace tessera {
namespace {

int64_t Sum(const google::protobuf::RepeatedField<uint32_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

size_t QBytes(const v1::AttendHeader& header) {
  const size_t element = header.dtype() == v1::DATA_TYPE_FLOAT32 ? 4 : 2;
  return static_cast<size_t>(Sum(header.q_lengths())) * header.q_heads() * header.head_dim() * element;
}

}  // namespace

class FakeServer::Attention final : public v1::AttentionService::Service {
 public:
  explicit Attention(FakeServer* fake) : fake_(fake) {}

  grpc::Status Attend(grpc::ServerContext* context, const v1::AttendRequest* request,
                      v1::AttendResponse* response) override {
    return fake_->ServeUnary(context, *request, response);
  }
  grpc::Status AttendStream(grpc::ServerContext* context, Stream* stream) override {
    return fake_->ServeStream(context, stream);
  }

 private:
  FakeServer* const fake_;
};

class FakeServer::Facts final : public v1::ServerService::Service {
 public:
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    response->set_version("1.2.3");
    response->set_backend("fake");
    return grpc::Status::OK;
  }
  grpc::Status PlanTiles(grpc::ServerContext*, const v1::PlanTilesRequest* request,
                         v1::PlanTilesResponse* response) override {
    if (request->tile() == 1) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "tile is 1");
    if (request->tile() == 2) return grpc::Status(grpc::StatusCode::CANCELLED, "tile is 2");
    response->set_tile(request->tile());
    return grpc::Status::OK;
  }
};

FakeServer::FakeServer() : attention_(std::make_unique<Attention>(this)), facts_(std::make_unique<Facts>()) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(attention_.get());
  builder.RegisterService(facts_.get());
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  server_ = builder.BuildAndStart();
  target_ = absl::StrCat("127.0.0.1:", port);
}

FakeServer::~FakeServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void FakeServer::SetJudge(Judge judge) {
  absl::MutexLock lock(&mutex_);
  judge_ = std::move(judge);
}

void FakeServer::SetAnswerChunk(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  answer_chunk_ = bytes;
}

void FakeServer::StopReading() {
  absl::MutexLock lock(&mutex_);
  stop_reading_ = true;
}

void FakeServer::AwaitHeld(int count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return static_cast<int>(held_.size()) >= count; };
  mutex_.Await(absl::Condition(&enough));
}

void FakeServer::ReleaseHeldInReverse() {
  absl::MutexLock lock(&mutex_);
  for (auto place = held_.rbegin(); place != held_.rend(); ++place) Answer(**place);
  held_.clear();
}

void FakeServer::AwaitCancellations(int count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return cancellations_ >= count; };
  mutex_.Await(absl::Condition(&enough));
}

void FakeServer::AwaitStreams(int count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return streams_ >= count; };
  mutex_.Await(absl::Condition(&enough));
}

int FakeServer::AwaitStreamEnds(int count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_streams_ >= count; };
  mutex_.Await(absl::Condition(&enough));
  return cancelled_streams_;
}

int FakeServer::calls() const {
  absl::MutexLock lock(&mutex_);
  return calls_;
}

int FakeServer::streams() const {
  absl::MutexLock lock(&mutex_);
  return streams_;
}

std::set<std::string> FakeServer::peers() const {
  absl::MutexLock lock(&mutex_);
  return peers_;
}

std::vector<std::string> FakeServer::tenants() const {
  absl::MutexLock lock(&mutex_);
  return tenants_;
}

std::pair<std::string, std::string> FakeServer::Expected(const v1::AttendHeader& header, const std::string& payload) {
  std::string o = payload.substr(0, QBytes(header));
  for (char& byte : o) byte = static_cast<char>(byte + 1);
  std::string lse;
  if (header.options().return_lse()) {
    uint32_t checksum = 0;
    for (const char byte : payload.substr(o.size())) checksum = (checksum * 31 + static_cast<uint8_t>(byte)) % 1000003;
    const int64_t rows = Sum(header.q_lengths()) * header.q_heads();
    for (int64_t i = 0; i < rows; ++i) {
      const float value = static_cast<float>(checksum) + static_cast<float>(i);
      lse.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  return {std::move(o), std::move(lse)};
}

size_t FakeServer::PayloadBytes(const v1::AttendHeader& header) {
  const auto& kv_lengths = header.kv_lengths().empty() ? header.q_lengths() : header.kv_lengths();
  const size_t element = header.dtype() == v1::DATA_TYPE_FLOAT32 ? 4 : 2;
  return QBytes(header) + 2 * static_cast<size_t>(Sum(kv_lengths)) * header.kv_heads() * header.head_dim() * element;
}

void FakeServer::Note(const grpc::ServerContext& context) {
  peers_.insert(context.peer());
  const auto tenant = context.client_metadata().find("tessera-tenant");
  if (tenant != context.client_metadata().end()) {
    tenants_.emplace_back(tenant->second.data(), tenant->second.size());
  }
}

grpc::Status FakeServer::ServeUnary(grpc::ServerContext* context, const v1::AttendRequest& request,
                                    v1::AttendResponse* response) {
  absl::MutexLock lock(&mutex_);
  Note(*context);
  Call call;
  call.header = request.header();
  call.payload = request.q() + request.k() + request.v();
  call.number = ++calls_;
  call.unary = true;
  const Decision decision = judge_ ? judge_(call) : Decision();
  if (decision.deed == Deed::kFail) {
    if (decision.retry_after_ms > 0) {
      context->AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(decision.retry_after_ms));
    }
    return decision.status;
  }
  if (decision.deed == Deed::kHold) {  // until the client gives up
    held_.push_back(std::make_shared<Assembly>());
    const auto cancelled = [context] { return context->IsCancelled(); };
    while (!mutex_.AwaitWithTimeout(absl::Condition(&cancelled), absl::Milliseconds(1))) {
    }
    ++cancellations_;
    return grpc::Status::CANCELLED;
  }
  auto [o, lse] = Expected(call.header, call.payload);
  response->mutable_result()->set_o_bytes(o.size());
  response->mutable_result()->set_lse_bytes(lse.size());
  response->set_o(std::move(o));
  response->set_lse(std::move(lse));
  return grpc::Status::OK;
}

grpc::Status FakeServer::ServeStream(grpc::ServerContext* context, Stream* stream) {
  absl::Mutex write_mutex;
  {
    absl::MutexLock lock(&mutex_);
    ++streams_;
    Note(*context);
  }
  grpc::Status end;
  v1::AttendStreamRequest message;
  while (stream->Read(&message)) {
    absl::MutexLock lock(&mutex_);
    const std::pair<const Stream*, uint64_t> key(stream, message.id());
    if (message.cancel()) {
      ++cancellations_;
      assemblies_.erase(key);
      continue;
    }
    if (message.has_header()) {
      std::shared_ptr<Assembly> assembly;
      const size_t count = std::max<size_t>(1, message.stripe().count());
      if (message.has_stripe()) {
        std::shared_ptr<Assembly>& shared = transfers_[message.stripe().transfer()];
        if (shared == nullptr) shared = std::make_shared<Assembly>();
        assembly = shared;
      } else {
        assembly = std::make_shared<Assembly>();
      }
      assembly->legs.resize(count);
      assembly->legs[message.stripe().index()] = Leg{stream, &write_mutex, message.id()};
      ++assembly->opened;
      assembly->call.header = message.header();
      assembly->call.timeout_us = message.timeout_us();
      assembly->call.connections = static_cast<int>(count);
      assembly->call.payload.resize(PayloadBytes(message.header()));
      assemblies_[key] = assembly;
    }
    if (stop_reading_) {
      const auto cancelled = [context] { return context->IsCancelled(); };
      while (!mutex_.AwaitWithTimeout(absl::Condition(&cancelled), absl::Milliseconds(1))) {
      }
      break;
    }
    const auto place = assemblies_.find(key);
    if (place == assemblies_.end()) continue;  // cancelled
    Assembly& assembly = *place->second;
    message.payload().copy(assembly.call.payload.data() + message.payload_offset(), message.payload().size());
    assembly.received += message.payload().size();
    if (assembly.received < assembly.call.payload.size() || assembly.opened < assembly.legs.size()) continue;

    const std::shared_ptr<Assembly> complete = place->second;
    assemblies_.erase(place);
    complete->call.number = ++calls_;
    const Decision decision = judge_ ? judge_(complete->call) : Decision();
    switch (decision.deed) {
      case Deed::kAnswer:
        Answer(*complete);
        break;
      case Deed::kHold:
        held_.push_back(complete);
        break;
      case Deed::kBreakStream:
        end = decision.status;
        break;
      case Deed::kFail:
        for (const Leg& leg : complete->legs) {
          v1::AttendStreamResponse failure;
          failure.mutable_status()->set_code(decision.status.error_code());
          failure.mutable_status()->set_message(decision.status.error_message());
          failure.mutable_status()->set_retry_after_ms(static_cast<uint32_t>(decision.retry_after_ms));
          Send(leg, std::move(failure));
        }
        break;
      case Deed::kSend:
        for (const v1::AttendStreamResponse& answer : decision.messages) Send(complete->legs[0], answer);
        break;
    }
    if (decision.deed == Deed::kBreakStream) break;
  }
  absl::MutexLock lock(&mutex_);
  ++ended_streams_;
  if (context->IsCancelled()) ++cancelled_streams_;
  std::erase_if(assemblies_, [stream](const auto& entry) { return entry.first.first == stream; });
  return end;
}

void FakeServer::Send(const Leg& leg, v1::AttendStreamResponse message) {
  message.set_id(leg.id);
  absl::MutexLock lock(leg.write_mutex);
  leg.stream->Write(message);
}

void FakeServer::Answer(const Assembly& assembly) {
  const auto [o, lse] = Expected(assembly.call.header, assembly.call.payload);
  const std::string bytes = o + lse;
  const size_t share = (bytes.size() + assembly.legs.size() - 1) / assembly.legs.size();
  for (size_t i = 0; i < assembly.legs.size(); ++i) {
    const size_t end = std::min((i + 1) * share, bytes.size());
    size_t offset = std::min(i * share, bytes.size());
    bool first = true;
    do {
      v1::AttendStreamResponse message;
      if (first) {
        message.mutable_result()->set_o_bytes(o.size());
        message.mutable_result()->set_lse_bytes(lse.size());
        first = false;
      }
      message.set_payload_offset(offset);
      message.set_payload(bytes.substr(offset, std::min(end - offset, static_cast<size_t>(answer_chunk_))));
      offset += message.payload().size();
      if (offset == end) message.mutable_status();
      Send(assembly.legs[i], std::move(message));
    } while (offset < end);
  }
}

}  // namespace tessera
