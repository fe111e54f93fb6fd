// What one Extend message becomes inside the server, and the answer to it.
#ifndef TESSERA_SERVER_RPC_EXTEND_MESSAGE_H_
#define TESSERA_SERVER_RPC_EXTEND_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/wire/attend_decode.h"
#include "server/request/extend_job.h"
#include "server/rpc/admission.h"
#include "server/rpc/sequence_environment.h"

namespace tessera {

struct AdmittedExtend {
  Admission::Ticket ticket;
  ExtendJobPtr job;  // not queued yet
};

// Checks the message, takes memory for its call, and copies its payload there, once. Fails as ToExtendSpec,
// Admission::AdmitCall and MakeExtendJob do; INVALID_ARGUMENT for payload of another size than the header's shape
// needs, DEADLINE_EXCEEDED where the deadline has passed. NOT_FOUND comes before INVALID_ARGUMENT.
absl::StatusOr<AdmittedExtend> AdmitExtend(const SequenceEnvironment& environment, std::string tenant,
                                           const wire::DecodedExtendRequest& message, int64_t message_bytes,
                                           absl::Time deadline, ExtendJob::DoneFn done);

// The answer of a job that ended OK. Its slices alias the job's output and keep the job alive until gRPC has sent them.
grpc::ByteBuffer EncodeExtendAnswer(const ExtendJobPtr& job);
// The same as a stream's, to the call `id`.
grpc::ByteBuffer EncodeExtendStreamAnswer(uint64_t id, const ExtendJobPtr& job);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_EXTEND_MESSAGE_H_
