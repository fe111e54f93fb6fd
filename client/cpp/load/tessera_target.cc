#include "client/cpp/load/tessera_target.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/load/attend_messages.h"
#include "client/cpp/load/server_description.h"

namespace tessera::load {

ClientOptions ToClientOptions(const TesseraOptions& options) {
  ClientOptions client_options;
  client_options.every_address = options.every_address;
  client_options.credentials = options.credentials;
  client_options.server_name = options.server_name;
  client_options.connections = options.connections;
  client_options.transport = options.transport;
  client_options.retry.max_attempts = options.attempts;
  client_options.default_timeout = options.timeout;
  return client_options;
}

TesseraTarget::TesseraTarget(absl::Span<const CallShape> shapes, const PayloadPool* payloads)
    : payloads_(payloads), buffers_(shapes) {}

TesseraTarget::~TesseraTarget() {
  clients_.clear();  // their callbacks use the buffers
}

absl::StatusOr<std::unique_ptr<TesseraTarget>> TesseraTarget::Connect(const TesseraOptions& options,
                                                                      absl::Span<const CallShape> shapes,
                                                                      const PayloadPool* payloads) {
  std::unique_ptr<TesseraTarget> target(new TesseraTarget(shapes, payloads));
  ClientOptions client_options = ToClientOptions(options);
  std::map<std::string, Client*> by_tenant;
  for (const CallShape& shape : shapes) {
    Prepared prepared;
    prepared.header = HeaderOf(shape, options.priority);
    prepared.timeout = shape.timeout > absl::ZeroDuration() ? shape.timeout : options.timeout;
    std::vector<std::string> tenants = options.tenants;
    if (!shape.tenant.empty() || tenants.empty()) tenants = {shape.tenant};
    for (const std::string& tenant : tenants) {
      Client*& client = by_tenant[tenant];
      if (client == nullptr) {
        client_options.tenant = tenant;
        absl::StatusOr<std::unique_ptr<Client>> connected = Client::Connect(options.address, client_options);
        if (!connected.ok()) return connected.status();
        target->clients_.push_back(*std::move(connected));
        client = target->clients_.back().get();
      }
      prepared.clients.push_back(client);
    }
    target->prepared_.push_back(std::move(prepared));
  }
  return target;
}

void TesseraTarget::Issue(const Call& call, AnswerCallback done) {
  const Prepared& prepared = prepared_[call.shape];
  const Payload payload = payloads_->Get(call.shape, call.payload);
  const std::shared_ptr<AnswerBuffer> buffer = buffers_.Take(call.shape);
  AttendCall attend;
  attend.header = prepared.header;
  attend.q = payload.q;
  attend.k = payload.k;
  attend.v = payload.v;
  attend.o = absl::MakeSpan(buffer->o);
  attend.lse = absl::MakeSpan(buffer->lse);
  attend.timeout = prepared.timeout;
  Client* const client = prepared.clients[call.payload % prepared.clients.size()];
  client->AttendAsync(
      attend, [this, shape = call.shape, buffer, done = std::move(done)](absl::StatusOr<AttendReply> reply) {
        Answer answer;
        answer.status = reply.status();
        if (reply.ok()) {
          const v1::AttendResult& result = reply->result;
          if (result.o_bytes() != buffer->o.size() || result.lse_bytes() != buffer->lse.size()) {
            answer.status =
                absl::DataLossError(absl::StrCat("answer of ", result.o_bytes(), " + ", result.lse_bytes(), " bytes"));
          }
          answer.timing = TimingOf(result.timing());
          answer.o = buffer->o;
          answer.lse = buffer->lse;
        }
        done(answer);
        buffers_.GiveBack(shape, buffer);
      });
}

absl::StatusOr<std::string> TesseraTarget::DescribeServer() {
  absl::StatusOr<v1::GetServerInfoResponse> info = clients_.front()->GetServerInfo();
  if (!info.ok()) return info.status();
  return load::DescribeServer(*info);
}

}  // namespace tessera::load
