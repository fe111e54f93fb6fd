#include "tests/server/region_client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "tests/server/attend_messages.h"

namespace tessera::testing {
namespace {

constexpr uint64_t kAlignment = 256;

uint64_t LseBytes(const v1::AttendHeader& header) {
  return header.options().return_lse() ? QBytes(header) / header.head_dim() : 0;  // of float32
}

}  // namespace

MappedRegion::MappedRegion(const v1::RegionOpened& opened)
    : id_(opened.region()),
      size_(opened.bytes()),
      fd_(open(opened.path().c_str(), O_RDWR | O_CLOEXEC)),
      data_(static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0))) {
  ABSL_RAW_CHECK(fd_ >= 0 && data_ != MAP_FAILED, "the region cannot be mapped");
}

MappedRegion::~MappedRegion() {
  munmap(data_, size_);
  close(fd_);
}

void MappedRegion::Write(size_t offset, const std::string& bytes) const {
  ABSL_RAW_CHECK(offset + bytes.size() <= size_, "written within the region");
  std::memcpy(data_ + offset, bytes.data(), bytes.size());
}

std::string MappedRegion::Read(size_t offset, size_t bytes) const {
  ABSL_RAW_CHECK(offset + bytes <= size_, "read within the region");
  return std::string(reinterpret_cast<const char*>(data_ + offset), bytes);
}

v1::AttendRegions RegionCallAt(uint64_t region, const v1::AttendRequest& request, uint64_t offset) {
  v1::AttendRegions call;
  *call.mutable_header() = request.header();
  const auto place = [&](v1::RegionTensor* tensor, uint64_t bytes) {
    tensor->set_region(region);
    tensor->set_offset(offset);
    tensor->set_bytes(bytes);
    offset += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  place(call.mutable_q(), request.q().size());
  place(call.mutable_k(), request.k().size());
  place(call.mutable_v(), request.v().size());
  place(call.mutable_o(), request.q().size());
  if (const uint64_t bytes = LseBytes(request.header()); bytes > 0) place(call.mutable_lse(), bytes);
  return call;
}

uint64_t RegionBytes(const v1::AttendRequest& request) {
  const v1::AttendRegions call = RegionCallAt(1, request);
  const v1::RegionTensor& last = call.has_lse() ? call.lse() : call.o();
  return (last.offset() + last.bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

void WriteInputs(const MappedRegion& region, const v1::AttendRegions& call, const v1::AttendRequest& request) {
  region.Write(call.q().offset(), request.q());
  region.Write(call.k().offset(), request.k());
  region.Write(call.v().offset(), request.v());
}

RegionClient::RegionClient(const std::shared_ptr<grpc::Channel>& channel, const std::string& tenant) {
  if (!tenant.empty()) context_.AddMetadata("tessera-tenant", tenant);
  stream_ = v1::RegionService::NewStub(channel)->AttendInRegions(&context_);
}

RegionClient::~RegionClient() {
  context_.TryCancel();
  if (!finished_) Finish();
}

v1::AttendInRegionsRequest RegionClient::Next() {
  v1::AttendInRegionsRequest message;
  message.set_id(++last_id_);
  return message;
}

uint64_t RegionClient::SendNext(const v1::AttendInRegionsRequest& message) {
  Send(message);
  return message.id();
}

uint64_t RegionClient::SendOpen(uint64_t bytes) {
  v1::AttendInRegionsRequest message = Next();
  message.mutable_open()->mutable_shared_memory()->set_bytes(bytes);
  return SendNext(message);
}

uint64_t RegionClient::SendClose(uint64_t region) {
  v1::AttendInRegionsRequest message = Next();
  message.mutable_close()->set_region(region);
  return SendNext(message);
}

uint64_t RegionClient::SendAttend(const v1::AttendRegions& call) {
  v1::AttendInRegionsRequest message = Next();
  *message.mutable_attend() = call;
  return SendNext(message);
}

void RegionClient::SendCancel(uint64_t id) {
  v1::AttendInRegionsRequest message;
  message.set_id(id);
  message.set_cancel(true);
  Send(message);
}

v1::AttendInRegionsResponse RegionClient::Await(uint64_t id) {
  while (!answers_.contains(id)) {
    v1::AttendInRegionsResponse message;
    if (!stream_->Read(&message)) {
      message.mutable_status()->set_code(static_cast<int>(Code::UNKNOWN));
      return message;
    }
    answers_[message.id()] = std::move(message);
  }
  return std::move(answers_.extract(id).mapped());
}

std::unique_ptr<MappedRegion> RegionClient::Open(uint64_t bytes) {
  const v1::AttendInRegionsResponse answer = Await(SendOpen(bytes));
  ABSL_RAW_CHECK(answer.has_opened(), answer.status().message().c_str());
  return std::make_unique<MappedRegion>(answer.opened());
}

grpc::Status RegionClient::Finish() {
  v1::AttendInRegionsResponse message;
  while (stream_->Read(&message)) answers_[message.id()] = message;
  finished_ = true;
  return stream_->Finish();
}

}  // namespace tessera::testing
