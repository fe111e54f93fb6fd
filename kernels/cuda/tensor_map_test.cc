// What the copy engine leaves in shared memory for the maps that the host encodes. Needs a GPU of compute
// capability 9.0.
#include "kernels/cuda/tensor_map.h"

#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/device_array.h"
#include "kernels/cuda/testing/slab_image.h"
#include "kernels/cuda/testing/tensor_map_probe.h"
#include "kernels/cuda/tile/slab_width.h"
#include "tests/random/seed.h"

namespace tessera::cuda {
namespace {

constexpr uint16_t kOutside = 0x7E00;  // NaN: must never be read

// A [tokens, heads, head_dim] tensor of random bits in a larger buffer of kOutside.
struct Tensor {
  Tensor(int token_count, int head_count, int width, Strides distances, std::mt19937_64& random)
      : tokens(token_count), heads(head_count), head_dim(width), strides(distances) {
    host.assign(tokens * strides.token + heads * strides.head + head_dim, kOutside);
    for (int token = 0; token < tokens; ++token) {
      for (int head = 0; head < heads; ++head) {
        for (int c = 0; c < head_dim; ++c) host[Index(token, head, c)] = static_cast<uint16_t>(random() % 0x7C00);
      }
    }
  }
  int64_t Index(int token, int head, int c) const { return token * strides.token + head * strides.head + c; }
  // Zero outside of the tensor, as the copy engine reads it.
  uint16_t At(int token, int head, int c) const {
    return token < tokens && head < heads && c < head_dim ? host[Index(token, head, c)] : 0;
  }

  int tokens, heads, head_dim;
  Strides strides;
  std::vector<uint16_t> host;
};

class TensorMapTest : public Sm90Test {
 protected:
  void SetUp() override {
    Sm90Test::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    absl::StatusOr<TensorMapEncoder> encoder = TensorMapEncoder::Create();
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    encoder_ = std::make_unique<TensorMapEncoder>(*std::move(encoder));
  }

  // Loads a box of `rows` rows at (token, head) and compares it with `at`(row, column). Slabs are slab_rows rows apart.
  template <typename Load, typename At>
  void ExpectBox(const TensorMap& map, int rows, int slab_rows, int kernel_head_dim, int token, int head, Load load,
                 At at) {
    const DeviceArray<TensorMap> device_map({map});
    const DeviceArray<uint16_t> image(std::vector<uint16_t>(slab_rows * kernel_head_dim));
    const int width = tile::SlabWidth(kernel_head_dim);
    ASSERT_EQ(load({device_map.data(), kernel_head_dim / width, width, slab_rows * width * 2, rows * width * 2, token,
                    head, reinterpret_cast<unsigned char*>(image.data())}),
              cudaSuccess);
    const std::vector<uint16_t> read = image.Read();
    for (int row = 0; row < slab_rows; ++row) {
      for (int c = 0; c < kernel_head_dim; ++c) {
        ASSERT_EQ(read[SlabImageIndex(slab_rows, kernel_head_dim, row, c)],
                  row < rows ? at(row, c) : kUnloaded | kUnloaded << 8)
            << "row " << row << " column " << c;
      }
    }
  }

  std::mt19937_64 random_{RandomSeed()};
  std::unique_ptr<TensorMapEncoder> encoder_;
};

struct KeyShape {
  int kernel_head_dim, tile_keys;
};

TEST_F(TensorMapTest, KeysAreSwizzledSlabsAndZeroOutsideOfTheTensor) {
  for (const KeyShape shape : {KeyShape{64, 128}, {96, 128}, {128, 176}, {192, 112}, {256, 80}}) {
    for (int head_dim : {shape.kernel_head_dim, shape.kernel_head_dim - 24}) {
      const AttentionParams params = {
          .dtype = DType::kFloat16, .q_heads = 3, .kv_heads = 3, .head_dim = head_dim, .scale = 1.0f};
      // Packed, padded, and all tokens of a head together; one token more than fills the second block's first row.
      const int tokens = shape.tile_keys + 1;
      for (const Strides strides : {Strides::Packed(3, head_dim), Strides{3 * head_dim + 40, head_dim + 8},
                                    Strides{head_dim, tokens * head_dim + 16}}) {
        const Tensor tensor(tokens, 3, head_dim, strides, random_);
        const DeviceArray<uint16_t> device(tensor.host);
        TensorMap map;
        ASSERT_TRUE(
            encoder_->EncodeKeys(params, device.data(), strides, tokens, shape.tile_keys, shape.kernel_head_dim, &map)
                .ok());
        for (int block = 0; block < 2; ++block) {
          SCOPED_TRACE(::testing::Message() << "head_dim " << head_dim << " block " << block);
          const int first = block * shape.tile_keys;
          ExpectBox(map, shape.tile_keys, shape.tile_keys, shape.kernel_head_dim, first, 2, ProbeKeys,
                    [&](int row, int c) { return tensor.At(first + row, 2, c); });
        }
      }
    }
  }
}

TEST_F(TensorMapTest, QueriesStackTheHeadsOfAToken) {
  constexpr int kTokens = 40, kKernelHeadDim = 128;
  for (int group : {1, 2, 5, 16}) {
    const int heads = 2 * group, tokens_per_box = 64 / group, rows = tokens_per_box * group;
    const AttentionParams params = {
        .dtype = DType::kBFloat16, .q_heads = heads, .kv_heads = 2, .head_dim = 104, .scale = 1.0f};
    const Tensor tensor(kTokens, heads, 104, {heads * 112 + 16, 112}, random_);
    const DeviceArray<uint16_t> device(tensor.host);
    TensorMap map;
    ASSERT_TRUE(
        encoder_
            ->EncodeQueries(params, device.data(), tensor.strides, kTokens, group, tokens_per_box, kKernelHeadDim, &map)
            .ok());
    for (int first : {0, kTokens - 3}) {
      SCOPED_TRACE(::testing::Message() << "group " << group << " from " << first);
      ExpectBox(map, rows, 64, kKernelHeadDim, first, 1, ProbeQueries,
                [&](int row, int c) { return tensor.At(first + row / group, group + row % group, c); });
    }
  }
}

TEST_F(TensorMapTest, OutputsThatDoNotExistAreNotWritten) {
  constexpr int kTokens = 40, kKernelHeadDim = 128, kHeadDim = 104;
  const int width = tile::SlabWidth(kKernelHeadDim);
  for (int group : {1, 2, 5, 16}) {
    const int heads = 2 * group, tokens_per_box = 64 / group, rows = tokens_per_box * group;
    const AttentionParams params = {
        .dtype = DType::kBFloat16, .q_heads = heads, .kv_heads = 2, .head_dim = kHeadDim, .scale = 1.0f};
    Tensor tensor(kTokens, heads, kHeadDim, {heads * 112 + 16, 112}, random_);
    std::vector<uint16_t> image(64 * kKernelHeadDim);
    for (uint16_t& element : image) element = static_cast<uint16_t>(random_());
    const DeviceArray<uint16_t> device(tensor.host), device_image(image);
    TensorMap map;
    ASSERT_TRUE(
        encoder_
            ->EncodeQueries(params, device.data(), tensor.strides, kTokens, group, tokens_per_box, kKernelHeadDim, &map)
            .ok());
    const DeviceArray<TensorMap> device_map({map});
    const int first = kTokens - 3;
    ASSERT_EQ(StoreOutputs({device_map.data(), kKernelHeadDim / width, width, 64 * width * 2, rows * width * 2, first,
                            1, reinterpret_cast<unsigned char*>(device_image.data())}),
              cudaSuccess);
    for (int row = 0; row < rows && first + row / group < kTokens; ++row) {
      for (int c = 0; c < kHeadDim; ++c) {
        tensor.host[tensor.Index(first + row / group, group + row % group, c)] =
            image[SlabImageIndex(64, kKernelHeadDim, row, c)];
      }
    }
    EXPECT_EQ(device.Read(), tensor.host) << "group " << group;
  }
}

}  // namespace
}  // namespace tessera::cuda
