#include "tests/gpu/c_api.h"

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/paged/paged_backend.h"
#include "kernels/cuda/standard/standard_backend.h"

namespace {

using tessera::cuda::GpuBackend;

constexpr int64_t kScoreBudget = int64_t{8} << 30;  // bytes, of standard attention

// One backend a family, made at its first use. Not thread-safe: benches are single-threaded.
std::map<std::string, std::unique_ptr<GpuBackend>>& Backends() {
  static auto& backends = *new std::map<std::string, std::unique_ptr<GpuBackend>>;
  return backends;
}

GpuBackend* BackendOf(const std::string& family) {
  std::unique_ptr<GpuBackend>& backend = Backends()[family];
  if (backend != nullptr) return backend.get();
  absl::StatusOr<std::unique_ptr<GpuBackend>> created =
      family == "standard"
          ? tessera::cuda::CreateStandardBackend(0, kScoreBudget)
          : tessera::cuda::CreateCudaBackend(
                0, family == "sm80" ? tessera::cuda::KernelFamily::kSm80 : tessera::cuda::KernelFamily::kSm90a);
  if (!created.ok()) {
    std::fprintf(stderr, "%s\n", created.status().ToString().c_str());
    return nullptr;
  }
  backend = *std::move(created);
  return backend.get();
}

}  // namespace

int tessera_forward(const char* family, int dtype, int q_heads, int kv_heads, int head_dim, float scale, int64_t left,
                    int64_t right, float softcap, int count, const int64_t* q_lens, const int64_t* kv_lens,
                    const void* q, const void* k, const void* v, void* o, float* lse, void* stream) {
  GpuBackend* backend = BackendOf(family);
  if (backend == nullptr) return -1;
  const tessera::AttentionParams params = {.dtype = static_cast<tessera::DType>(dtype),
                                           .q_heads = q_heads,
                                           .kv_heads = kv_heads,
                                           .head_dim = head_dim,
                                           .scale = scale,
                                           .mask = {left, right},
                                           .softcap = softcap};
  const int64_t size = tessera::SizeOf(params.dtype);
  std::vector<tessera::SequenceView> sequences(count);
  int64_t q_token = 0, kv_token = 0;
  for (int i = 0; i < count; ++i) {
    tessera::SequenceView& sequence = sequences[i];
    const int64_t q_offset = q_token * q_heads * head_dim * size;
    const int64_t kv_offset = kv_token * kv_heads * head_dim * size;
    sequence.q_len = q_lens[i];
    sequence.kv_len = kv_lens[i];
    sequence.q = static_cast<const char*>(q) + q_offset;
    sequence.k = static_cast<const char*>(k) + kv_offset;
    sequence.v = static_cast<const char*>(v) + kv_offset;
    sequence.o = static_cast<char*>(o) + q_offset;
    sequence.lse = lse == nullptr ? nullptr : lse + q_token * q_heads;
    sequence.q_strides = sequence.o_strides = tessera::Strides::Packed(q_heads, head_dim);
    sequence.k_strides = sequence.v_strides = tessera::Strides::Packed(kv_heads, head_dim);
    sequence.lse_strides = {q_heads, 1};
    q_token += q_lens[i];
    kv_token += kv_lens[i];
  }
  const absl::Status status = backend->Forward(params, sequences, stream, nullptr);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return -1;
}

int tessera_decode(int dtype, int q_heads, int kv_heads, int head_dim, float scale, int page_tokens, int heads_outer,
                   int count, int q_len, int append, const int64_t* kv_lens, const void* q, const void* k,
                   const void* v, void* o, void* pages, const int32_t* tables, int64_t table_width, const float* scales,
                   void* stream) {
  static auto& backend = *new auto(tessera::cuda::CreatePagedBackend(0));
  if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.status().ToString().c_str()), -1;
  tessera::PagedParams params = {.attention = {.dtype = static_cast<tessera::DType>(dtype),
                                               .q_heads = q_heads,
                                               .kv_heads = kv_heads,
                                               .head_dim = head_dim,
                                               .scale = scale,
                                               .mask = tessera::Mask::Causal()},
                                 .page_tokens = page_tokens};
  params.cache_dtype =
      scales != nullptr ? tessera::CacheDType::kFloat8 : tessera::CacheDTypeFor(params.attention.dtype);
  const int64_t half = int64_t{page_tokens} * kv_heads * head_dim;
  params.page_stride = 2 * half;
  params.strides = tessera::Strides::Packed(kv_heads, head_dim);
  if (heads_outer != 0) params.strides = {head_dim, int64_t{page_tokens} * head_dim};
  const int64_t size = tessera::SizeOf(params.attention.dtype);
  std::vector<tessera::PagedSequence> sequences(count);
  for (int i = 0; i < count; ++i) {
    tessera::PagedSequence& sequence = sequences[i];
    sequence.q_len = q_len;
    sequence.kv_len = kv_lens[i];
    sequence.append_len = append;
    sequence.layer.k_pages = pages;
    sequence.layer.v_pages = static_cast<char*>(pages) + half * tessera::SizeOf(params.cache_dtype);
    if (scales != nullptr) {
      sequence.layer.k_scales = scales;
      sequence.layer.v_scales = scales + kv_heads;
    }
    sequence.pages = {tables + i * table_width, static_cast<size_t>(table_width)};
    sequence.q = static_cast<const char*>(q) + int64_t{i} * q_len * q_heads * head_dim * size;
    sequence.o = static_cast<char*>(o) + int64_t{i} * q_len * q_heads * head_dim * size;
    sequence.k = static_cast<const char*>(k) + int64_t{i} * append * kv_heads * head_dim * size;
    sequence.v = static_cast<const char*>(v) + int64_t{i} * append * kv_heads * head_dim * size;
    sequence.q_strides = sequence.o_strides = tessera::Strides::Packed(q_heads, head_dim);
    sequence.k_strides = sequence.v_strides = tessera::Strides::Packed(kv_heads, head_dim);
  }
  const absl::Status status = (*backend)->Extend(params, sequences, stream, nullptr);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return -1;
}

int64_t tessera_peak_scratch_bytes(const char* family) {
  GpuBackend* backend = BackendOf(family);
  return backend == nullptr ? -1 : backend->PeakScratchBytes().value_or(-1);
}

void tessera_release(const char* family) { Backends().erase(family); }
