#include "tests/gpu/properties.h"

#include <vector>

#include "tests/gpu/attention_case.h"
#include "tests/gpu/cases.h"

namespace tessera::gpu_test {

std::string CheckRepeatable(AttentionBackend& backend, DType dtype, int d, Mask mask, std::mt19937_64& random) {
  Case batch;
  batch.name = "repeat";
  batch.params = {dtype, 4, 2, d, DefaultScale(d), mask, 0};
  batch.sequences = {{333, 333}, {17, 900}, {1, 513}, {640, 128}, {200, 200}, {65, 2100}, {70, 4100}};
  const Inputs inputs = MakeInputs(batch, random);
  const Output first = RunBackend(backend, batch, inputs, nullptr);
  for (int repeat = 0; repeat < 100; ++repeat) {
    const Output again = RunBackend(backend, batch, inputs, nullptr);
    if (again.o != first.o || again.lse != first.lse) return "bits change between repeats";
  }
  const size_t o_bytes = inputs.o.elements * SizeOf(dtype);
  DeviceBuffer o(o_bytes), lse(inputs.lse.elements * sizeof(float));
  Check(cudaMemset(o.as<void>(), kPoison, o_bytes), "poison");
  Check(cudaMemset(lse.as<void>(), kPoison, inputs.lse.elements * sizeof(float)), "poison");
  for (const SequenceView& view : Views(batch, inputs, o.as<unsigned char>(), lse.as<float>())) {
    const absl::Status status = backend.Forward(batch.params, {&view, 1}, nullptr, nullptr);
    if (!status.ok()) return status.ToString();
  }
  Check(cudaDeviceSynchronize(), "alone");
  if (o.Download<unsigned char>() != first.o || lse.Download<unsigned char>() != first.lse) {
    return "bits change with the batchmates";
  }
  return "";
}

namespace {

Case FarApart(DType dtype) {
  Case test;
  test.name = "F10 rows 2^28 elements apart";
  test.params = {dtype, 1, 1, 64, DefaultScale(64), Mask::Causal(), 0};
  test.sequences = {{10, 10}};
  return test;
}

}  // namespace

std::string CheckFarApart(AttentionBackend& backend, DType dtype, std::mt19937_64& random) {
  const Case test = FarApart(dtype);
  const Inputs inputs = MakeInputs(test, random);
  constexpr int64_t kStride = int64_t{1} << 28;
  const int64_t size = SizeOf(dtype);
  DeviceBuffer k(10 * kStride * size), v(10 * kStride * size), o(inputs.o.elements * size),
      lse(inputs.lse.elements * 4);
  const Output near = RunBackend(backend, test, inputs, nullptr);
  Check(cudaMemset(o.as<void>(), kPoison, inputs.o.elements * size), "poison");
  SequenceView view = Views(test, inputs, o.as<unsigned char>(), lse.as<float>())[0];
  const int64_t width = 64 * size;
  Check(cudaMemcpy2D(k.as<void>(), kStride * size, view.k, view.k_strides.token * size, width, 10, cudaMemcpyDefault),
        "spread");
  Check(cudaMemcpy2D(v.as<void>(), kStride * size, view.v, view.v_strides.token * size, width, 10, cudaMemcpyDefault),
        "spread");
  view.k = k.as<void>();
  view.v = v.as<void>();
  view.k_strides.token = view.v_strides.token = kStride;
  const absl::Status status = backend.Forward(test.params, {&view, 1}, nullptr, nullptr);
  if (!status.ok()) return status.ToString();
  Check(cudaDeviceSynchronize(), "far apart");
  return o.Download<unsigned char>() == near.o ? "" : "other bits than with rows side by side";
}

std::string CheckWindowEqualsCausal(AttentionBackend& backend, DType dtype, std::mt19937_64& random) {
  Case test;
  test.name = "F06 window of everything before";
  test.params = {dtype, 2, 1, 128, DefaultScale(128), Mask::Causal(), 0};
  test.sequences = {{517, 517}};
  const Inputs inputs = MakeInputs(test, random);
  const Output causal = RunBackend(backend, test, inputs, nullptr);
  test.params.mask = Mask::Window(516, 0);
  const Output window = RunBackend(backend, test, inputs, nullptr);
  return causal.o == window.o && causal.lse == window.lse ? "" : "other bits than causal";
}

}  // namespace tessera::gpu_test
