// Calls in staging memory, for programs that run a GPU device without a server around it.
#ifndef TESSERA_TESTS_GPU_GPU_CALLS_H_
#define TESSERA_TESTS_GPU_GPU_CALLS_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "kernels/attention.h"
#include "server/device/device.h"
#include "server/memory/staging_pool.h"
#include "server/request/attend_job.h"

namespace tessera::testing {

// bf16, causal, 16 heads of 128.
AttentionParams GpuParams();

// One sequence of `tokens` rows, random input, poisoned output. REQUIRES: the pool has room.
std::shared_ptr<AttendJob> MakeGpuCall(StagingPool& staging, uint32_t tokens, std::mt19937_64& rng);

// The calls as a batch. They outlive it.
std::vector<BatchItem> ItemsOf(const std::vector<std::shared_ptr<AttendJob>>& calls);

// Poisons the outputs.
void Poison(const std::vector<std::shared_ptr<AttendJob>>& calls);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_GPU_GPU_CALLS_H_
