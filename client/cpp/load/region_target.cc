#include "client/cpp/load/region_target.h"

#include <algorithm>
#include <utility>

#include "client/cpp/load/attend_messages.h"

namespace tessera::load {
namespace {

constexpr size_t kAlignment = 256;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

absl::StatusOr<std::unique_ptr<RegionTarget>> RegionTarget::Connect(const TesseraOptions& server,
                                                                    const RegionOptions& options,
                                                                    absl::Span<const CallShape> shapes,
                                                                    const PayloadPool& payloads) {
  std::unique_ptr<RegionTarget> target(new RegionTarget(options));
  if (options.kind == RegionKind::kCuda) {
    absl::StatusOr<std::unique_ptr<CudaDriver>> driver = CudaDriver::Open(0);
    if (!driver.ok()) return driver.status();
    target->driver_ = *std::move(driver);
  }
  ClientOptions client_options;
  client_options.every_address = server.every_address;
  client_options.credentials = server.credentials;
  client_options.server_name = server.server_name;
  if (!server.tenants.empty()) client_options.tenant = server.tenants.front();
  for (int i = 0; i < std::min(server.connections, options.places); ++i) {
    absl::StatusOr<std::unique_ptr<RegionSession>> session = RegionSession::Connect(server.address, client_options);
    if (!session.ok()) return session.status();
    target->sessions_.push_back(*std::move(session));
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    Prepared& prepared = target->prepared_.emplace_back();
    prepared.header = HeaderOf(shapes[i], server.priority);
    prepared.timeout = shapes[i].timeout > absl::ZeroDuration() ? shapes[i].timeout : server.timeout;
    if (absl::Status status = target->Prepare(shapes[i], i, payloads, &prepared); !status.ok()) return status;
  }
  absl::MutexLock lock(&target->mutex_);
  for (Prepared& prepared : target->prepared_) {
    std::vector<Place*>& free = target->free_.emplace_back();
    for (Place& place : prepared.places) free.push_back(&place);
  }
  return target;
}

RegionTarget::~RegionTarget() {
  prepared_.clear();  // the regions, before their sessions
}

absl::Status RegionTarget::Prepare(const CallShape& shape, size_t ordinal, const PayloadPool& payloads,
                                   Prepared* prepared) {
  prepared->q_bytes = static_cast<size_t>(shape.q_bytes());
  prepared->kv_bytes = static_cast<size_t>(shape.kv_bytes());
  prepared->block_bytes = RoundUp(static_cast<size_t>(shape.request_bytes()));
  const auto o_bytes = static_cast<size_t>(shape.o_bytes());
  const auto lse_bytes = static_cast<size_t>(shape.lse_bytes());
  const size_t place_bytes = RoundUp(o_bytes) + RoundUp(lse_bytes);
  const size_t sessions = sessions_.size();
  for (size_t session = 0; session < sessions; ++session) {
    absl::StatusOr<std::unique_ptr<RegionMemory>> inputs =
        RegionMemory::Open(sessions_[session].get(), driver_.get(),
                           std::max(kAlignment, static_cast<size_t>(options_.payloads) * prepared->block_bytes));
    if (!inputs.ok()) return inputs.status();
    for (int i = 0; i < options_.payloads; ++i) {
      const Payload payload = payloads.Get(ordinal, static_cast<uint64_t>(i));
      absl::Status written = (*inputs)->Write(static_cast<size_t>(i) * prepared->block_bytes, payload.all());
      if (!written.ok()) return written;
    }
    prepared->inputs.push_back(*std::move(inputs));

    const size_t places = (static_cast<size_t>(options_.places) + sessions - 1 - session) / sessions;
    absl::StatusOr<std::unique_ptr<RegionMemory>> outputs =
        RegionMemory::Open(sessions_[session].get(), driver_.get(), std::max(kAlignment, places * place_bytes));
    if (!outputs.ok()) return outputs.status();
    for (size_t i = 0; i < places; ++i) {
      Place place;
      place.session = session;
      place.o = (*outputs)->memory().subspan(i * place_bytes, o_bytes);
      place.lse = (*outputs)->memory().subspan(i * place_bytes + RoundUp(o_bytes), lse_bytes);
      prepared->places.push_back(place);
    }
    prepared->outputs.push_back(*std::move(outputs));
  }
  return absl::OkStatus();
}

void RegionTarget::Issue(const Call& call, AnswerCallback done) {
  Place* place = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<Place*>& free = free_[call.shape];
    if (!free.empty()) {
      place = free.back();
      free.pop_back();
    }
  }
  if (place == nullptr) {
    Answer answer;
    answer.status = absl::ResourceExhaustedError("no place is free for the outputs of another call");
    return done(answer);
  }
  const Prepared& prepared = prepared_[call.shape];
  const size_t payload = call.payload % static_cast<uint64_t>(options_.payloads);
  const absl::Span<std::byte> block =
      prepared.inputs[place->session]->memory().subspan(payload * prepared.block_bytes, prepared.block_bytes);
  AttendCall attend;
  attend.header = prepared.header;
  attend.q = block.first(prepared.q_bytes);
  attend.k = block.subspan(prepared.q_bytes, prepared.kv_bytes);
  attend.v = block.subspan(prepared.q_bytes + prepared.kv_bytes, prepared.kv_bytes);
  attend.o = place->o;
  attend.lse = place->lse;
  attend.timeout = prepared.timeout;
  sessions_[place->session]->AttendAsync(
      attend, [this, call, place, done = std::move(done)](const absl::StatusOr<AttendReply>& reply) {
        std::vector<std::byte> copy;
        const Answer answer = AnswerOf(prepared_[call.shape], *place, reply, &copy);
        {
          absl::MutexLock lock(&mutex_);
          free_[call.shape].push_back(place);
        }
        done(answer);  // which may make the next call
      });
}

Answer RegionTarget::AnswerOf(const Prepared& prepared, const Place& place, const absl::StatusOr<AttendReply>& reply,
                              std::vector<std::byte>* copy) const {
  Answer answer;
  answer.status = reply.status();
  if (!reply.ok()) return answer;
  answer.timing = TimingOf(reply->result.timing());
  if (!options_.hand_on_answers) return answer;
  copy->resize(place.o.size() + place.lse.size());
  const absl::Span<std::byte> o = absl::MakeSpan(*copy).first(place.o.size());
  const absl::Span<std::byte> lse = absl::MakeSpan(*copy).subspan(place.o.size());
  const RegionMemory& outputs = *prepared.outputs[place.session];
  answer.status = outputs.Read(place.o, o);
  answer.status.Update(outputs.Read(place.lse, lse));
  answer.o = o;
  answer.lse = lse;
  return answer;
}

}  // namespace tessera::load
