#include "kernels/reference/paged_reference.h"

#include "kernels/cache_dtype_dispatch.h"
#include "kernels/dtype_dispatch.h"
#include "kernels/mask.h"
#include "kernels/reference/attend_row.h"

namespace tessera {

PagedRows ReadPages(const PagedParams& params, const PagedSequence& sequence) {
  PagedRows rows;
  DispatchCacheDType(params.cache_dtype, [&](auto element) {
    using T = decltype(element);
    const auto append = [&](const void* pages, const float* scales, std::vector<double>& to, int64_t token,
                            int64_t head) {
      const int64_t offset = sequence.pages[token / params.page_tokens] * params.page_stride +
                             token % params.page_tokens * params.strides.token + head * params.strides.head;
      const T* row = static_cast<const T*>(pages) + offset;
      const double scale = params.cache_dtype == CacheDType::kFloat8 ? scales[head] : 1.0;
      for (int c = 0; c < params.attention.head_dim; ++c) to.push_back(scale * ToFloat(row[c]));
    };
    for (int64_t token = 0; token < sequence.kv_len; ++token) {
      for (int64_t head = 0; head < params.attention.kv_heads; ++head) {
        append(sequence.layer.k_pages, sequence.layer.k_scales, rows.k, token, head);
        append(sequence.layer.v_pages, sequence.layer.v_scales, rows.v, token, head);
      }
    }
  });
  return rows;
}

ReferenceOutput AttendPagedInDouble(const PagedParams& params, const PagedSequence& sequence) {
  const AttentionParams& attention = params.attention;
  const int64_t rows = sequence.q_len * attention.q_heads;
  const PagedRows cached = ReadPages(params, sequence);
  const MaskGeometry mask(attention.mask, sequence.q_len, sequence.kv_len);
  ReferenceOutput output{.o = std::vector<double>(rows * attention.head_dim), .lse = std::vector<double>(rows)};
  std::vector<double> scores(sequence.kv_len);
  DispatchDType(attention.dtype, [&](auto element) {
    using T = decltype(element);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t token = row / attention.q_heads;
      const int64_t head = row % attention.q_heads;
      const int64_t kv_head = head / (attention.q_heads / attention.kv_heads);
      const T* q =
          static_cast<const T*>(sequence.q) + token * sequence.q_strides.token + head * sequence.q_strides.head;
      const auto at = [&](const std::vector<double>& tensor, int64_t key, int c) {
        return tensor[(key * attention.kv_heads + kv_head) * attention.head_dim + c];
      };
      output.lse[row] = AttendRow(
          attention, mask.VisibleTo(token), [q](int c) { return static_cast<double>(ToFloat(q[c])); },
          [&](int64_t key, int c) { return at(cached.k, key, c); },
          [&](int64_t key, int c) { return at(cached.v, key, c); }, scores, output.o.data() + row * attention.head_dim);
    }
  });
  return output;
}

}  // namespace tessera
