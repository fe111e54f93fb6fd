#include "client/cpp/load/tessera_target.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::load {
namespace {

v1::AttendHeader HeaderOf(const CallShape& shape, v1::Priority default_priority) {
  v1::AttendHeader header;
  header.set_dtype(shape.dtype);
  header.set_q_heads(static_cast<uint32_t>(shape.q_heads));
  header.set_kv_heads(static_cast<uint32_t>(shape.kv_heads));
  header.set_head_dim(static_cast<uint32_t>(shape.head_dim));
  for (int64_t i = 0; i < shape.sequences; ++i) {
    header.add_q_lengths(static_cast<uint32_t>(shape.q_length));
    if (shape.kv_length != shape.q_length) header.add_kv_lengths(static_cast<uint32_t>(shape.kv_length));
  }
  v1::AttentionOptions* const options = header.mutable_options();
  options->mutable_mask()->set_kind(shape.mask);
  if (shape.mask == v1::MASK_KIND_WINDOW) {
    options->mutable_mask()->set_window_left(shape.window_left);
    options->mutable_mask()->set_window_right(shape.window_right);
  }
  options->set_return_lse(shape.return_lse);
  options->set_priority(shape.priority != v1::PRIORITY_UNSPECIFIED ? shape.priority : default_priority);
  return header;
}

ServerTiming TimingOf(const v1::Timing& timing) {
  return {absl::Nanoseconds(timing.receive_ns()), absl::Nanoseconds(timing.queue_ns()),
          absl::Nanoseconds(timing.run_ns()), timing.batch_requests()};
}

}  // namespace

TesseraTarget::TesseraTarget(absl::Span<const CallShape> shapes, const PayloadPool* payloads)
    : payloads_(payloads), buffers_(shapes) {}

TesseraTarget::~TesseraTarget() {
  clients_.clear();  // their callbacks use the buffers
}

absl::StatusOr<std::unique_ptr<TesseraTarget>> TesseraTarget::Connect(const TesseraOptions& options,
                                                                      absl::Span<const CallShape> shapes,
                                                                      const PayloadPool* payloads) {
  std::unique_ptr<TesseraTarget> target(new TesseraTarget(shapes, payloads));
  ClientOptions client_options;
  client_options.every_address = options.every_address;
  client_options.credentials = options.credentials;
  client_options.server_name = options.server_name;
  client_options.connections = options.connections;
  client_options.transport = options.transport;
  client_options.retry.max_attempts = options.attempts;
  client_options.default_timeout = options.timeout;

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
  std::string text = absl::StrCat("tessera ", info->version(), " (", info->revision(), "), backend ", info->backend());
  for (const v1::DeviceInfo& device : info->devices()) {
    absl::StrAppend(&text, "; ", device.name(), ", ", device.kernel(), " kernels, ", device.slots(), " slots");
  }
  return text;
}

}  // namespace tessera::load
