// Warpgroup matrix products (sm_90a): c[64 x n] (+)= a[64 x 16] * b[16 x n], fp32 accumulation in registers.
//
// Accumulator and register-A fragments, warp w, lane = 4 * g + t: c[4 * j + 2 * i + b] is row 16 * w + g + 8 * i,
// column 8 * j + 2 * t + b; a[0..3] are the same positions of a 16-wide slice in the order (j, i) = (0,0) (0,1) (1,0)
// (1,1).
//
// A product runs between WgmmaFence and WgmmaWait: registers it names must not be touched in between, which the
// compiler learns from WgmmaPin.
#ifndef TESSERA_KERNELS_CUDA_PTX_WGMMA_H_
#define TESSERA_KERNELS_CUDA_PTX_WGMMA_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tessera::ptx {

// Orders earlier register and shared-memory accesses of the warpgroup before its next product.
__device__ __forceinline__ void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void WgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `kPending` committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses to these registers across this point.
template <int kCount>
__device__ __forceinline__ void WgmmaPin(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void WgmmaPin(uint32_t (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// a and b in shared memory, both with K innermost. `accumulate` = 0 overwrites c.
template <typename Element, int kColumns>
__device__ __forceinline__ void WgmmaShared(float (&c)[kColumns / 2], uint64_t a, uint64_t b, int accumulate);

// a in registers, b in shared memory with its columns innermost.
template <typename Element, int kColumns>
__device__ __forceinline__ void WgmmaRegisters(float (&c)[kColumns / 2], const uint32_t (&a)[4], uint64_t b,
                                               int accumulate);

// clang-format off
#define TESSERA_C8(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])
#define TESSERA_C32 TESSERA_C8(0), TESSERA_C8(8), TESSERA_C8(16), TESSERA_C8(24)
#define TESSERA_C40 TESSERA_C32, TESSERA_C8(32)
#define TESSERA_C48 TESSERA_C40, TESSERA_C8(40)
#define TESSERA_C56 TESSERA_C48, TESSERA_C8(48)
#define TESSERA_C64 TESSERA_C56, TESSERA_C8(56)
#define TESSERA_C80 TESSERA_C64, TESSERA_C8(64), TESSERA_C8(72)
#define TESSERA_C88 TESSERA_C80, TESSERA_C8(80)
#define TESSERA_C96 TESSERA_C88, TESSERA_C8(88)
#define TESSERA_C128 TESSERA_C96, TESSERA_C8(96), TESSERA_C8(104), TESSERA_C8(112), TESSERA_C8(120)

#define TESSERA_R32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TESSERA_R40 TESSERA_R32 \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TESSERA_R48 TESSERA_R40 \
  ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TESSERA_R56 TESSERA_R48 \
  ", %48, %49, %50, %51, %52, %53, %54, %55"
#define TESSERA_R64 TESSERA_R56 \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define TESSERA_R80 TESSERA_R64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define TESSERA_R88 TESSERA_R80 \
  ", %80, %81, %82, %83, %84, %85, %86, %87"
#define TESSERA_R96 TESSERA_R88 \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define TESSERA_R128 TESSERA_R96 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// Operand numbers after the accumulators: REGISTERS = n / 2, then a, b and the accumulate flag.
#define TESSERA_WGMMA_SHARED(ELEMENT, TYPE, COLUMNS, REGISTERS, A, B, FLAG) \
  template <> \
  __device__ __forceinline__ void WgmmaShared<ELEMENT, COLUMNS>(float (&c)[REGISTERS], uint64_t a, uint64_t b, int accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #FLAG ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." #TYPE "." #TYPE " {" TESSERA_R##REGISTERS "}, " \
                 "%" #A ", %" #B ", p, 1, 1, 0, 0;\n}\n" \
                 : TESSERA_C##REGISTERS : "l"(a), "l"(b), "r"(accumulate)); \
  }

#define TESSERA_WGMMA_REGISTERS(ELEMENT, TYPE, COLUMNS, REGISTERS, A0, A1, A2, A3, B, FLAG) \
  template <> \
  __device__ __forceinline__ void WgmmaRegisters<ELEMENT, COLUMNS>(float (&c)[REGISTERS], const uint32_t (&a)[4], uint64_t b, int accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #FLAG ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." #TYPE "." #TYPE " {" TESSERA_R##REGISTERS "}, " \
                 "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1, 1;\n}\n" \
                 : TESSERA_C##REGISTERS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)); \
  }

TESSERA_WGMMA_SHARED(__half, f16, 80, 40, 40, 41, 42)
TESSERA_WGMMA_SHARED(__half, f16, 112, 56, 56, 57, 58)
TESSERA_WGMMA_SHARED(__half, f16, 128, 64, 64, 65, 66)
TESSERA_WGMMA_SHARED(__half, f16, 176, 88, 88, 89, 90)
TESSERA_WGMMA_REGISTERS(__half, f16, 64, 32, 32, 33, 34, 35, 36, 37)
TESSERA_WGMMA_REGISTERS(__half, f16, 96, 48, 48, 49, 50, 51, 52, 53)
TESSERA_WGMMA_REGISTERS(__half, f16, 128, 64, 64, 65, 66, 67, 68, 69)
TESSERA_WGMMA_REGISTERS(__half, f16, 192, 96, 96, 97, 98, 99, 100, 101)
TESSERA_WGMMA_REGISTERS(__half, f16, 256, 128, 128, 129, 130, 131, 132, 133)
TESSERA_WGMMA_SHARED(__nv_bfloat16, bf16, 80, 40, 40, 41, 42)
TESSERA_WGMMA_SHARED(__nv_bfloat16, bf16, 112, 56, 56, 57, 58)
TESSERA_WGMMA_SHARED(__nv_bfloat16, bf16, 128, 64, 64, 65, 66)
TESSERA_WGMMA_SHARED(__nv_bfloat16, bf16, 176, 88, 88, 89, 90)
TESSERA_WGMMA_REGISTERS(__nv_bfloat16, bf16, 64, 32, 32, 33, 34, 35, 36, 37)
TESSERA_WGMMA_REGISTERS(__nv_bfloat16, bf16, 96, 48, 48, 49, 50, 51, 52, 53)
TESSERA_WGMMA_REGISTERS(__nv_bfloat16, bf16, 128, 64, 64, 65, 66, 67, 68, 69)
TESSERA_WGMMA_REGISTERS(__nv_bfloat16, bf16, 192, 96, 96, 97, 98, 99, 100, 101)
TESSERA_WGMMA_REGISTERS(__nv_bfloat16, bf16, 256, 128, 128, 129, 130, 131, 132, 133)

#undef TESSERA_WGMMA_REGISTERS
#undef TESSERA_WGMMA_SHARED
#undef TESSERA_R128
#undef TESSERA_R96
#undef TESSERA_R88
#undef TESSERA_R80
#undef TESSERA_R64
#undef TESSERA_R56
#undef TESSERA_R48
#undef TESSERA_R40
#undef TESSERA_R32
#undef TESSERA_C128
#undef TESSERA_C96
#undef TESSERA_C88
#undef TESSERA_C80
#undef TESSERA_C64
#undef TESSERA_C56
#undef TESSERA_C48
#undef TESSERA_C40
#undef TESSERA_C32
#undef TESSERA_C8
// clang-format on

}  // namespace tessera::ptx

#endif  // TESSERA_KERNELS_CUDA_PTX_WGMMA_H_
