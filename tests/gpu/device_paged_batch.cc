#include "tests/gpu/device_paged_batch.h"

#include <cstdio>
#include <cstdlib>

namespace tessera::gpu_test {

DevicePagedBatch::DevicePagedBatch(PagedBatch& host) : host_(host) {
  for (size_t i = 0; i < host.size(); ++i) AddTensors(host.contiguous()[i]);
  outputs_.push_back({host.memory(), std::make_unique<DeviceBuffer>(host.memory().size())});
  for (const Copy& copy : inputs_) Upload(copy);
  const int64_t heads = host.params().attention.kv_heads;
  scales_ = std::make_unique<DeviceBuffer>(2 * heads * sizeof(float));
  for (size_t i = 0; i < host.size(); ++i) {
    PagedSequence view = host.View(i);
    if (view.layer.k_scales != nullptr) {
      std::vector<float> scales(view.layer.k_scales, view.layer.k_scales + heads);
      scales.insert(scales.end(), view.layer.v_scales, view.layer.v_scales + heads);
      scales_->Upload(scales);
      view.layer.k_scales = scales_->as<float>();
      view.layer.v_scales = scales_->as<float>() + heads;
    }
    tables_.push_back(std::make_unique<DeviceBuffer>(view.pages.size() * sizeof(int32_t)));
    tables_.back()->Upload(std::vector<int32_t>(view.pages.begin(), view.pages.end()));
    view.pages = {tables_.back()->as<int32_t>(), view.pages.size()};
    view.layer.k_pages = OnDevice(view.layer.k_pages);
    view.layer.v_pages = OnDevice(view.layer.v_pages);
    view.q = OnDevice(view.q);
    view.k = OnDevice(view.k);
    view.v = OnDevice(view.v);
    view.o = OnDevice(view.o);
    view.lse = OnDevice(view.lse);
    views_.push_back(view);
    SequenceView contiguous = host.contiguous().View(i);
    contiguous.q = view.q;
    contiguous.k = OnDevice(contiguous.k);
    contiguous.v = OnDevice(contiguous.v);
    contiguous.o = view.o;
    contiguous.lse = view.lse;
    contiguous_views_.push_back(contiguous);
  }
  Reset();
}

void DevicePagedBatch::AddTensors(TestSequence& sequence) {
  for (TestTensor* tensor : {&sequence.q, &sequence.k, &sequence.v}) {
    inputs_.push_back({tensor->memory(), std::make_unique<DeviceBuffer>(tensor->memory().size())});
  }
  for (TestTensor* tensor : {&sequence.o, &sequence.lse}) {
    outputs_.push_back({tensor->memory(), std::make_unique<DeviceBuffer>(tensor->memory().size())});
  }
}

void DevicePagedBatch::Upload(const Copy& copy) const {
  Check(cudaMemcpy(copy.device->as<void>(), copy.host.data(), copy.host.size(), cudaMemcpyHostToDevice), "upload");
}

template <typename T>
T* DevicePagedBatch::OnDevice(T* host) const {
  if (host == nullptr) return nullptr;
  const auto* at = reinterpret_cast<const std::byte*>(host);
  for (const std::vector<Copy>* copies : {&inputs_, &outputs_}) {
    for (const Copy& copy : *copies) {
      // One past the end too: of a tensor without rows.
      if (at < copy.host.data() || at > copy.host.data() + copy.host.size()) continue;
      return reinterpret_cast<T*>(copy.device->as<std::byte>() + (at - copy.host.data()));
    }
  }
  std::fprintf(stderr, "a pointer into none of the batch's tensors\n");
  std::exit(2);
}

void DevicePagedBatch::Reset() {
  host_.contiguous().PoisonOutputs();
  host_.ForgetAppended();
  for (const Copy& copy : outputs_) Upload(copy);
}

void DevicePagedBatch::Read() {
  Check(cudaDeviceSynchronize(), "the kernels");
  for (const Copy& copy : outputs_) {
    Check(cudaMemcpy(copy.host.data(), copy.device->as<void>(), copy.host.size(), cudaMemcpyDeviceToHost), "download");
  }
}

}  // namespace tessera::gpu_test
