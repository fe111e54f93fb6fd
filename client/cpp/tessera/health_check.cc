// The two messages of the check have one field each, written and read here by hand: gRPC's packages do not ship
// health.proto.
#include "client/cpp/tessera/health_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/tessera/status_conversion.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/client_context.h"
#include "proto/wire/attend_decode.h"
#include "proto/wire/slice_reader.h"

namespace tessera {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
constexpr uint64_t kServing = 1;

// HealthCheckRequest: string service = 1.
grpc::ByteBuffer EncodeRequest(absl::string_view service) {
  uint8_t prefix[6];
  prefix[0] = 1 << 3 | 2;
  uint8_t* const end =
      google::protobuf::io::CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(service.size()), prefix + 1);
  const grpc::Slice slices[] = {grpc::Slice(prefix, static_cast<size_t>(end - prefix)),
                                grpc::Slice(service.data(), service.size())};
  return grpc::ByteBuffer(slices, 2);
}

// HealthCheckResponse: ServingStatus status = 1.
absl::StatusOr<uint64_t> DecodeResponse(const grpc::ByteBuffer& buffer) {
  absl::StatusOr<std::vector<grpc::Slice>> slices = wire::Slices(buffer);
  if (!slices.ok()) return slices.status();
  wire::SliceReader reader(*slices);
  uint64_t serving_status = 0;
  while (!reader.done()) {
    absl::StatusOr<wire::Tag> tag = reader.ReadTag();
    if (!tag.ok()) return tag.status();
    if (tag->field == 1 && tag->type == wire::WireType::kVarint) {
      absl::StatusOr<uint64_t> value = reader.ReadVarint();
      if (!value.ok()) return value.status();
      serving_status = *value;
    } else if (absl::Status status = reader.Skip(*tag); !status.ok()) {
      return status;
    }
  }
  return serving_status;
}

}  // namespace

absl::Status CheckHealth(grpc::GenericStub* stub, absl::string_view service, absl::Time deadline) {
  grpc::ClientContext context;
  if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
  const grpc::ByteBuffer request = EncodeRequest(service);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub->UnaryCall(&context, kMethod, {}, &request, &response, [&](grpc::Status end) {
    status = std::move(end);
    done.Notify();
  });
  done.WaitForNotification();
  if (!status.ok()) return UnavailableIfCancelled(ToAbslStatus(status));
  absl::StatusOr<uint64_t> serving_status = DecodeResponse(response);
  if (!serving_status.ok()) return absl::InternalError(serving_status.status().message());
  if (*serving_status != kServing) {
    return absl::UnavailableError(
        absl::StrCat("the server says that it is not serving (status ", *serving_status, ")"));
  }
  return absl::OkStatus();
}

}  // namespace tessera
