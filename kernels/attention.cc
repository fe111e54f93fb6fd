#include "kernels/attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status Refuse(absl::string_view field, absl::string_view rule, const auto& value) {
  return absl::InvalidArgumentError(absl::StrCat(field, " must be ", rule, ", got ", value));
}

// A tensor of `tokens` tokens of `heads` heads, each `width` elements long. Heads must not overlap within a token, nor
// tokens with one another; either may be the outer one, so that transposed layouts are honoured.
absl::Status ValidateTensor(absl::string_view name, const void* data, int64_t tokens, int64_t heads, int64_t width,
                            const Strides& strides) {
  if (tokens == 0) return absl::OkStatus();
  if (data == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, " must not be null"));
  if (heads > 1 && strides.head < width) {
    return Refuse(absl::StrCat(name, " head stride"), absl::StrCat("at least ", width), strides.head);
  }
  if (tokens > 1 && strides.token < width) {
    return Refuse(absl::StrCat(name, " token stride"), absl::StrCat("at least ", width), strides.token);
  }
  if (heads == 1 || tokens == 1) return absl::OkStatus();
  // Division instead of a product: strides and lengths are the caller's and may be as large as they like.
  const bool heads_inside_token = (strides.token - width) / strides.head >= heads - 1;
  const bool tokens_inside_head = (strides.head - width) / strides.token >= tokens - 1;
  if (!heads_inside_token && !tokens_inside_head) {
    return absl::InvalidArgumentError(absl::StrCat(name, " strides overlap: token ", strides.token, ", head ",
                                                   strides.head, " for ", tokens, " tokens of ", heads, " heads of ",
                                                   width, " elements"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
  }
  return "unknown";
}

ForwardStats& ForwardStats::operator+=(const ForwardStats& other) {
  tiles_computed += other.tiles_computed;
  tiles_skipped += other.tiles_skipped;
  flops += other.flops;
  hbm_bytes += other.hbm_bytes;
  return *this;
}

absl::Status ValidateParams(const AttentionParams& params) {
  switch (params.dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
    default:
      return Refuse("dtype", "float32, float16 or bfloat16", static_cast<int>(params.dtype));
  }
  if (params.kv_heads < 1) return Refuse("kv_heads", "at least 1", params.kv_heads);
  if (params.q_heads < 1) return Refuse("q_heads", "at least 1", params.q_heads);
  if (params.q_heads % params.kv_heads != 0) {
    return Refuse("q_heads", absl::StrCat("a multiple of kv_heads = ", params.kv_heads), params.q_heads);
  }
  if (params.head_dim < kMinHeadDim || params.head_dim > kMaxHeadDim || params.head_dim % kHeadDimStep != 0) {
    return Refuse("head_dim", absl::StrCat(kMinHeadDim, " to ", kMaxHeadDim, " in steps of ", kHeadDimStep),
                  params.head_dim);
  }
  if (!std::isfinite(params.scale)) return Refuse("scale", "finite", params.scale);
  if (!std::isfinite(params.softcap) || params.softcap < 0) {
    return Refuse("softcap", "finite and at least 0", params.softcap);
  }
  if (params.mask.left < Mask::kUnbounded) return Refuse("mask.left", "at least -1", params.mask.left);
  if (params.mask.right < Mask::kUnbounded) return Refuse("mask.right", "at least -1", params.mask.right);
  return absl::OkStatus();
}

absl::Status ValidateSequence(const AttentionParams& params, const SequenceView& sequence) {
  if (sequence.q_len < 0) return Refuse("q_len", "at least 0", sequence.q_len);
  if (sequence.kv_len < 0) return Refuse("kv_len", "at least 0", sequence.kv_len);
  const struct {
    absl::string_view name;
    const void* data;
    int64_t tokens;
    int64_t heads;
    int64_t width;
    const Strides& strides;
  } tensors[] = {
      {"q", sequence.q, sequence.q_len, params.q_heads, params.head_dim, sequence.q_strides},
      {"k", sequence.k, sequence.kv_len, params.kv_heads, params.head_dim, sequence.k_strides},
      {"v", sequence.v, sequence.kv_len, params.kv_heads, params.head_dim, sequence.v_strides},
      {"o", sequence.o, sequence.q_len, params.q_heads, params.head_dim, sequence.o_strides},
      {"lse", sequence.lse, sequence.lse == nullptr ? 0 : sequence.q_len, params.q_heads, 1, sequence.lse_strides},
  };
  for (const auto& tensor : tensors) {
    absl::Status status =
        ValidateTensor(tensor.name, tensor.data, tensor.tokens, tensor.heads, tensor.width, tensor.strides);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ValidateBatch(const AttentionParams& params, absl::Span<const SequenceView> sequences) {
  if (absl::Status status = ValidateParams(params); !status.ok()) return status;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (absl::Status status = ValidateSequence(params, sequences[i]); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
