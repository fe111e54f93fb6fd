#include "kernels/paged_attention.h"

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status Refuse(absl::string_view field, absl::string_view rule, const auto& value) {
  return absl::InvalidArgumentError(absl::StrCat(field, " must be ", rule, ", got ", value));
}

absl::Status ValidateGeometry(const PagedParams& params) {
  const AttentionParams& attention = params.attention;
  if (params.cache_dtype != CacheDTypeFor(attention.dtype) && params.cache_dtype != CacheDType::kFloat8) {
    return Refuse("cache_dtype", absl::StrCat(Name(attention.dtype), " or float8_e4m3"), Name(params.cache_dtype));
  }
  const int64_t tokens = params.page_tokens;
  if (tokens < 1 || tokens > kMaxPageTokens || (tokens & (tokens - 1)) != 0) {
    return Refuse("page_tokens", absl::StrCat("a power of two, 1 to ", kMaxPageTokens), tokens);
  }
  const auto [token, head] = params.strides;
  if (token < attention.head_dim) return Refuse("token stride", absl::StrCat("at least ", attention.head_dim), token);
  if (head < attention.head_dim) return Refuse("head stride", absl::StrCat("at least ", attention.head_dim), head);
  // Within a page, rows overlap neither in the one order nor in the other. Division, for strides are the caller's.
  const int64_t heads = attention.kv_heads;
  const bool heads_inside_token = heads == 1 || (token - attention.head_dim) / head >= heads - 1;
  const bool tokens_inside_head = tokens == 1 || (head - attention.head_dim) / token >= tokens - 1;
  if (!heads_inside_token && !tokens_inside_head) {
    return absl::InvalidArgumentError(absl::StrCat("strides overlap: token ", token, ", head ", head));
  }
  // The extent of a page is at most this, whichever is the outer one.
  const bool fits = heads_inside_token ? params.page_stride / tokens >= token : params.page_stride / heads >= head;
  if (!fits) {
    return Refuse("page_stride", absl::StrCat("at least ", heads_inside_token ? "page_tokens" : "kv_heads", " strides"),
                  params.page_stride);
  }
  return absl::OkStatus();
}

absl::Status ValidateStep(const PagedParams& params, const PagedSequence& sequence) {
  if (sequence.kv_len < 0) return Refuse("kv_len", "at least 0", sequence.kv_len);
  if (sequence.append_len < 0 || sequence.append_len > sequence.kv_len) {
    return Refuse("append_len", absl::StrCat("0 to kv_len = ", sequence.kv_len), sequence.append_len);
  }
  const int64_t pages = sequence.kv_len / params.page_tokens + (sequence.kv_len % params.page_tokens != 0 ? 1 : 0);
  if (static_cast<int64_t>(sequence.pages.size()) < pages) {
    return Refuse("pages", absl::StrCat("at least ", pages), sequence.pages.size());
  }
  if (sequence.kv_len > 0) {
    const PagedLayer& layer = sequence.layer;
    if (layer.k_pages == nullptr || layer.v_pages == nullptr) {
      return absl::InvalidArgumentError("k_pages and v_pages must not be null");
    }
    if (params.cache_dtype == CacheDType::kFloat8 && (layer.k_scales == nullptr || layer.v_scales == nullptr)) {
      return absl::InvalidArgumentError("k_scales and v_scales must not be null with float8_e4m3");
    }
  }
  // q, o, LSE and the new rows obey the rules of tensors.
  return ValidateSequence(params.attention, {.q_len = sequence.q_len,
                                             .kv_len = sequence.append_len,
                                             .q = sequence.q,
                                             .k = sequence.k,
                                             .v = sequence.v,
                                             .o = sequence.o,
                                             .lse = sequence.lse,
                                             .q_strides = sequence.q_strides,
                                             .k_strides = sequence.k_strides,
                                             .v_strides = sequence.v_strides,
                                             .o_strides = sequence.o_strides,
                                             .lse_strides = sequence.lse_strides});
}

}  // namespace

absl::string_view Name(CacheDType dtype) {
  switch (dtype) {
    case CacheDType::kFloat32:
      return Name(DType::kFloat32);
    case CacheDType::kFloat16:
      return Name(DType::kFloat16);
    case CacheDType::kBFloat16:
      return Name(DType::kBFloat16);
    case CacheDType::kFloat8:
      return "float8_e4m3";
  }
  return "unknown";
}

absl::Status ValidatePagedBatch(const PagedParams& params, absl::Span<const PagedSequence> sequences) {
  if (absl::Status status = ValidateParams(params.attention); !status.ok()) return status;
  if (absl::Status status = ValidateGeometry(params); !status.ok()) return status;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (absl::Status status = ValidateStep(params, sequences[i]); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
