// The CUDA backend behind C functions, for programs that load it beside another framework in one process.
#ifndef TESSERA_TESTS_GPU_C_API_H_
#define TESSERA_TESTS_GPU_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One batch of `count` packed sequences that lie one after another in q, k, v and o ([tokens, heads, head_dim], device
// pointers). q_lens, kv_lens: host arrays. lse: [tokens, q_heads] or null. dtype: 0 float32, 1 float16, 2 bfloat16.
// family: "sm90a", "sm80" or "standard". Enqueues on `stream` and returns 0, or -1 with the reason printed.
int tessera_forward(const char* family, int dtype, int q_heads, int kv_heads, int head_dim, float scale, int64_t left,
                    int64_t right, float softcap, int count, const int64_t* q_lens, const int64_t* kv_lens,
                    const void* q, const void* k, const void* v, void* o, float* lse, void* stream);

// One step of `count` sequences over pages: q_len query rows each, causal, once `append` (0 or more) new rows of k and
// v are appended. q, o: [count, q_len, q_heads, head_dim]; k, v: [count, append, kv_heads, head_dim], not read where
// append is 0; kv_lens (host array): tokens in the pages then. A page holds page_tokens tokens of K, then of V,
// [tokens, kv_heads, head_dim] or, where heads_outer, [kv_heads, tokens, head_dim]; page p begins at p times its size.
// tables: device array, table_width page numbers a sequence. scales: [2, kv_heads] on the device, of K and of V, and
// elements of fp8 in the pages; or null. Enqueues on `stream` and returns 0, or -1 with the reason printed.
int tessera_decode(int dtype, int q_heads, int kv_heads, int head_dim, float scale, int page_tokens, int heads_outer,
                   int count, int q_len, int append, const int64_t* kv_lens, const void* q, const void* k,
                   const void* v, void* o, void* pages, const int32_t* tables, int64_t table_width, const float* scales,
                   void* stream);

// The most scratch memory, in bytes, that calls of a family have had in use at one time since its first call or since
// tessera_release; -1 where it cannot be told.
int64_t tessera_peak_scratch_bytes(const char* family);

// Gives back all that a family holds. REQUIRES: its calls have finished on the device.
void tessera_release(const char* family);

#ifdef __cplusplus
}
#endif

#endif  // TESSERA_TESTS_GPU_C_API_H_
