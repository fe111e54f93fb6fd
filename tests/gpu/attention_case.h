// One test case: its shapes, its inputs between guard elements, and a run of a backend over poisoned outputs.
#ifndef TESSERA_TESTS_GPU_ATTENTION_CASE_H_
#define TESSERA_TESTS_GPU_ATTENTION_CASE_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "tests/gpu/device_buffer.h"

namespace tessera::gpu_test {

enum class Layout { kPacked, kPadded, kTransposed };

struct Lengths {
  int64_t q = 0;
  int64_t kv = 0;
};

struct Case {
  std::string name;
  AttentionParams params;
  std::vector<Lengths> sequences;
  Layout layout = Layout::kPacked;
  bool lse = true;
  double magnitude = 1;     // of q and k
  double mean = 0;          // of k, against q's of the other sign
  double nan_fraction = 0;  // of V rows that hold NaN or infinity
  int misalign = 0;         // elements that every tensor starts off a 16-byte boundary
};

// One tensor of all sequences: where each starts and its strides, in elements.
struct TensorPlan {
  std::vector<int64_t> offsets;
  std::vector<Strides> strides;
  int64_t elements = 0;
};

struct Inputs {
  TensorPlan q, k, v, o, lse;
  std::unique_ptr<DeviceBuffer> q_data, k_data, v_data;
};

// Random inputs. What lies between and around the sequences is NaN.
Inputs MakeInputs(const Case& test, std::mt19937_64& random);

// The sequences, with outputs at the given device addresses.
std::vector<SequenceView> Views(const Case& test, const Inputs& inputs, unsigned char* o, float* lse);

// NaN in every element type.
inline constexpr unsigned char kPoison = 0xFF;

// All bytes of the output tensors, guards included.
struct Output {
  std::vector<unsigned char> o;
  std::vector<unsigned char> lse;
};

// Empty where the backend refuses, which is printed.
Output RunBackend(AttentionBackend& backend, const Case& test, const Inputs& inputs, ForwardStats* stats);

float Decode(DType dtype, const unsigned char* element);

std::string Describe(const Case& test);

}  // namespace tessera::gpu_test

#endif  // TESSERA_TESTS_GPU_ATTENTION_CASE_H_
