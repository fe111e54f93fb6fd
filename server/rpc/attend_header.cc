#include "server/rpc/attend_header.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/wire/attend_encode.h"
#include "server/rpc/count.h"

namespace tessera {
namespace {

absl::StatusOr<Mask> ToMask(const v1::Mask& mask) {
  if (mask.kind() != v1::MASK_KIND_WINDOW && (mask.window_left() != 0 || mask.window_right() != 0)) {
    return absl::InvalidArgumentError("options.mask: window_left and window_right go with MASK_KIND_WINDOW alone");
  }
  switch (mask.kind()) {
    case v1::MASK_KIND_UNSPECIFIED:
    case v1::MASK_KIND_FULL:
      return Mask::Full();
    case v1::MASK_KIND_CAUSAL:
      return Mask::Causal();
    case v1::MASK_KIND_WINDOW:
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("options.mask.kind: ", static_cast<int>(mask.kind()), " is unknown"));
  }
  if (mask.window_left() < -1) {
    return absl::InvalidArgumentError(absl::StrCat("options.mask.window_left: ", mask.window_left(), " is below -1"));
  }
  if (mask.window_right() < -1) {
    return absl::InvalidArgumentError(absl::StrCat("options.mask.window_right: ", mask.window_right(), " is below -1"));
  }
  return Mask::Window(mask.window_left(), mask.window_right());
}

absl::StatusOr<JobPriority> ToPriority(v1::Priority priority) {
  switch (priority) {
    case v1::PRIORITY_LOW:
      return JobPriority::kLow;
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_NORMAL:
      return JobPriority::kNormal;
    case v1::PRIORITY_HIGH:
      return JobPriority::kHigh;
    default:
      return absl::InvalidArgumentError(absl::StrCat("options.priority: ", static_cast<int>(priority), " is unknown"));
  }
}

absl::Span<const uint32_t> Lengths(const google::protobuf::RepeatedField<uint32_t>& lengths) {
  return absl::MakeConstSpan(lengths.data(), static_cast<size_t>(lengths.size()));
}

uint64_t Nanoseconds(absl::Time from, absl::Time to) {
  return from == absl::InfinitePast() || to < from ? 0 : static_cast<uint64_t>(absl::ToInt64Nanoseconds(to - from));
}

}  // namespace

absl::StatusOr<DType> ToDType(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      return DType::kFloat32;
    case v1::DATA_TYPE_FLOAT16:
      return DType::kFloat16;
    case v1::DATA_TYPE_BFLOAT16:
      return DType::kBFloat16;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("dtype: ", static_cast<int>(dtype), " is not one of FLOAT32, FLOAT16, BFLOAT16"));
  }
}

absl::Status ReadOptions(const v1::AttentionOptions& options, AttentionParams* params, JobPriority* priority) {
  const absl::StatusOr<Mask> mask = ToMask(options.mask());
  if (!mask.ok()) return mask.status();
  const absl::StatusOr<JobPriority> wanted = ToPriority(options.priority());
  if (!wanted.ok()) return wanted.status();
  *priority = *wanted;
  params->mask = *mask;
  params->softcap = options.softcap();
  if (options.has_scale()) {
    params->scale = options.scale();
  } else if (params->head_dim > 0) {
    params->scale = 1.0f / std::sqrt(static_cast<float>(params->head_dim));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttendSpec> ToAttendSpec(const v1::AttendHeader& header, const RequestLimits& limits) {
  const absl::StatusOr<DType> dtype = ToDType(header.dtype());
  if (!dtype.ok()) return dtype.status();
  AttentionParams params;
  params.dtype = *dtype;
  for (const absl::Status& status :
       {ToCount("q_heads", header.q_heads(), &params.q_heads), ToCount("kv_heads", header.kv_heads(), &params.kv_heads),
        ToCount("head_dim", header.head_dim(), &params.head_dim)}) {
    if (!status.ok()) return status;
  }
  JobPriority priority;
  if (absl::Status status = ReadOptions(header.options(), &params, &priority); !status.ok()) return status;
  absl::StatusOr<AttendShape> shape = AttendShape::Make(
      params, Lengths(header.q_lengths()), Lengths(header.kv_lengths()), header.options().return_lse(), limits);
  if (!shape.ok()) return shape.status();
  return AttendSpec{*std::move(shape), priority};
}

absl::Status CheckUnaryAnswer(const AttendShape& shape) {
  // More than the result and the fields' tags and lengths ever take.
  constexpr int64_t kEnvelopeBytes = 1024;
  constexpr auto kMost = static_cast<int64_t>(wire::kMaxMessageBytes) - kEnvelopeBytes;
  if (shape.output_bytes() <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("q_lengths: an answer of ", shape.output_bytes(),
                                                 " bytes is more than the ", kMost,
                                                 " that one message takes; use AttendStream"));
}

v1::Timing ToTiming(const JobTimes& times) {
  v1::Timing timing;
  timing.set_receive_ns(Nanoseconds(times.received, times.queued));
  timing.set_queue_ns(Nanoseconds(times.queued, times.launched));
  timing.set_run_ns(Nanoseconds(times.launched, times.finished));
  timing.set_batch_requests(static_cast<uint32_t>(times.batch_jobs));
  return timing;
}

v1::AttendResult ToAttendResult(const AttendShape& shape, const JobTimes& times) {
  v1::AttendResult result;
  result.set_o_bytes(static_cast<uint64_t>(shape.q_bytes));
  result.set_lse_bytes(static_cast<uint64_t>(shape.lse_bytes));
  *result.mutable_timing() = ToTiming(times);
  return result;
}

}  // namespace tessera
