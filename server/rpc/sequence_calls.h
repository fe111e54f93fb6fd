// The calls on sequences that move no tensors: from request to response.
//
// Statuses as proto/tessera/v1/sequence.proto has them. Whoever is refused for want of pages or sequences finds that in
// the status (WithReason).
#ifndef TESSERA_SERVER_RPC_SEQUENCE_CALLS_H_
#define TESSERA_SERVER_RPC_SEQUENCE_CALLS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rpc/sequence_environment.h"
#include "tessera/v1/sequence.pb.h"

namespace tessera {

absl::StatusOr<v1::CreateSequencesResponse> CreateSequences(const SequenceEnvironment& environment,
                                                            absl::string_view tenant,
                                                            const v1::CreateSequencesRequest& request);
absl::StatusOr<v1::ForkSequenceResponse> ForkSequence(const SequenceEnvironment& environment, absl::string_view tenant,
                                                      const v1::ForkSequenceRequest& request);
absl::StatusOr<v1::TruncateSequenceResponse> TruncateSequence(const SequenceEnvironment& environment,
                                                              absl::string_view tenant,
                                                              const v1::TruncateSequenceRequest& request);
absl::StatusOr<v1::ReleaseSequencesResponse> ReleaseSequences(const SequenceEnvironment& environment,
                                                              absl::string_view tenant,
                                                              const v1::ReleaseSequencesRequest& request);
absl::StatusOr<v1::GetSequenceResponse> GetSequence(const SequenceEnvironment& environment, absl::string_view tenant,
                                                    const v1::GetSequenceRequest& request);

}  // namespace tessera

#endif  // TESSERA_SERVER_RPC_SEQUENCE_CALLS_H_
