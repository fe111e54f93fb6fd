// A 16-bit tile's bytes as the copy engine writes it and wgmma reads it, written down from the PTX manual rather than
// from tile/slab_layout.h, which tests compare with it.
#ifndef TESSERA_KERNELS_CUDA_TESTING_SLAB_IMAGE_H_
#define TESSERA_KERNELS_CUDA_TESTING_SLAB_IMAGE_H_

#include <cstddef>

namespace tessera::cuda {

// Index, in elements, of (row, column) of a [rows, columns] tile. Slabs of 64 columns and the 128-byte swizzle, or,
// where columns are no multiple of 64, of 32 columns and the 64-byte one: in both, 16-byte chunk c of a 128-byte line
// lies where c's lowest bits are exclusive-ored with the line's number in its group of 8 (or 4 pairs of rows).
inline size_t SlabImageIndex(int rows, int columns, int row, int column) {
  const int width = columns % 64 == 0 ? 64 : 32;
  const int swizzle = width == 64 ? row % 8 : row / 2 % 4;
  const int chunk = column % width / 8 ^ swizzle;
  return static_cast<size_t>(column / width) * rows * width + static_cast<size_t>(row) * width + chunk * 8 + column % 8;
}

}  // namespace tessera::cuda

#endif  // TESSERA_KERNELS_CUDA_TESTING_SLAB_IMAGE_H_
