#include "server/rpc/extend_header.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/paged_attention.h"
#include "server/rpc/attend_header.h"
#include "server/rpc/count.h"

namespace tessera {
namespace {

v1::DataType ToMessage(CacheDType dtype) {
  switch (dtype) {
    case CacheDType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case CacheDType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
    case CacheDType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
    case CacheDType::kFloat8:
      return v1::DATA_TYPE_FLOAT8_E4M3;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<ExtendSpec> ToExtendSpec(const v1::ExtendHeader& header, const SequenceEnvironment& environment) {
  const RequestLimits& limits = environment.attend.limits.request;
  if (header.entries().empty()) return absl::InvalidArgumentError("entries: empty, at least 1 is needed");
  if (header.entries_size() > limits.max_sequences) {
    return absl::InvalidArgumentError(absl::StrCat("entries: ", header.entries_size(),
                                                   " are more than the server's limit of ", limits.max_sequences));
  }
  ExtendSpec spec;
  std::vector<ExtendEntry> entries;
  entries.reserve(static_cast<size_t>(header.entries_size()));
  for (const v1::ExtendEntry& message : header.entries()) {
    absl::StatusOr<SequenceEnvironment::Named> named = environment.OfHandle(message.sequence());
    if (!named.ok()) return named.status();
    if (spec.cache == nullptr)
      spec.cache = std::move(named->cache);
    else if (spec.cache != named->cache) {
      return absl::InvalidArgumentError("entries: the sequences of a call must be of one profile");
    }
    ExtendEntry entry{.sequence = named->handle};
    if (absl::Status status = ToCount("entries.layer", message.layer(), &entry.layer); !status.ok()) return status;
    entry.q_tokens = message.q_tokens();
    entry.append_tokens = message.append_tokens();
    entries.push_back(entry);
  }
  const CacheProfile& profile = spec.cache->profile();
  AttentionParams params;
  params.dtype = profile.dtype;
  params.kv_heads = profile.kv_heads;
  params.head_dim = profile.head_dim;
  if (absl::Status status = ToCount("q_heads", header.q_heads(), &params.q_heads); !status.ok()) return status;
  if (absl::Status status = ReadOptions(header.options(), &params, &spec.priority); !status.ok()) return status;
  if (!header.options().has_mask()) params.mask = Mask::Causal();
  absl::StatusOr<ExtendShape> shape =
      ExtendShape::Make(params, std::move(entries), header.options().return_lse(), profile, limits);
  if (!shape.ok()) return shape.status();
  spec.shape = *std::move(shape);
  return spec;
}

v1::ExtendResult ToExtendResult(const ExtendJob& job) {
  v1::ExtendResult result;
  for (const int64_t length : job.lengths()) result.add_lengths(static_cast<uint64_t>(length));
  *result.mutable_timing() = ToTiming(job.times());
  return result;
}

v1::CacheProfile ToMessage(const CacheProfile& profile) {
  v1::CacheProfile message;
  message.set_name(profile.name);
  message.set_layers(static_cast<uint32_t>(profile.layers));
  message.set_kv_heads(static_cast<uint32_t>(profile.kv_heads));
  message.set_head_dim(static_cast<uint32_t>(profile.head_dim));
  message.set_dtype(ToMessage(CacheDTypeFor(profile.dtype)));
  message.set_kv_dtype(ToMessage(profile.kv_dtype()));
  message.set_page_tokens(static_cast<uint32_t>(profile.page_tokens));
  message.set_pages(static_cast<uint32_t>(profile.pages));
  message.set_max_tokens(static_cast<uint64_t>(profile.max_tokens));
  message.set_lease_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(profile.lease)));
  return message;
}

}  // namespace tessera
