// One Attend call inside the server: where its bytes are, and what is to be computed.
#ifndef TESSERA_SERVER_REQUEST_ATTEND_JOB_H_
#define TESSERA_SERVER_REQUEST_ATTEND_JOB_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "server/memory/byte_budget.h"
#include "server/memory/staging_pool.h"
#include "server/request/attend_shape.h"
#include "server/request/device_job.h"
#include "server/scheduler/job.h"

namespace tessera {

// Where the tensors of a call lie, each packed as its shape says; null of one without bytes, or an LSE that is not
// wanted.
struct TensorPlaces {
  std::byte* q = nullptr;
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  std::byte* o = nullptr;
  std::byte* lse = nullptr;
  bool on_device = false;  // of a GPU; otherwise in the host's memory
  // Keeps the memory, and hears by its destruction that nobody uses it for this call any more.
  std::shared_ptr<const void> lease;
};

// Owned by shared_ptr: the RPC holds it until the answer is sent, the engine while it runs. Its buffers live as long as
// it does, so a call that is cancelled while it runs keeps its memory until the device has let go of it.
class AttendJob final : public DeviceJob {
 public:
  // Runs once, on the thread that ended the job, with no lock of the scheduler or engine held. Must not block.
  using DoneFn = std::function<void(const absl::Status& status, State where)>;

  // `input` holds q, k, v end to end, `output` takes o, LSE end to end, both as `shape` lays them out.
  // `charge` is held for the job's life. REQUIRES: the buffers are as large as the shape says.
  AttendJob(Traits traits, AttendShape shape, StagingBuffer input, StagingBuffer output, ByteBudget::Charge charge,
            DoneFn done);
  // Of a call whose tensors lie elsewhere. input() and output() are empty.
  AttendJob(Traits traits, AttendShape shape, TensorPlaces places, ByteBudget::Charge charge, DoneFn done);

  const AttendShape& shape() const { return shape_; }
  // Views into input() and output(), or into places(), one a sequence.
  const std::vector<SequenceView>& sequences() const { return sequences_; }
  StagingBuffer& input() { return input_; }
  StagingBuffer& output() { return output_; }
  // All null where the tensors are in input() and output().
  const TensorPlaces& places() const { return places_; }

  // Every field of `params`, packed without loss: equal keys mean equal parameters.
  static BatchKey Key(const AttentionParams& params);

 private:
  void OnEnded(const absl::Status& status, State where) override;

  void MakeSequences(const TensorPlaces& places);

  const AttendShape shape_;
  StagingBuffer input_;
  StagingBuffer output_;
  TensorPlaces places_;
  std::vector<SequenceView> sequences_;
  ByteBudget::Charge charge_;
  DoneFn done_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_REQUEST_ATTEND_JOB_H_
