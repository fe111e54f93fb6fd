# Finds the CUDA 13.0 compiler: the machine's own nvcc, or the one that deploy/local/setup.sh puts into .cuda/.
# Sets TESSERA_HAVE_CUDA. With neither, the build is CPU-only and says so.
set(TESSERA_HAVE_CUDA OFF)
if(NOT TESSERA_CUDA)
  message(STATUS "Tessera: CUDA kernels skipped: TESSERA_CUDA is off")
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  find_program(TESSERA_NVCC nvcc HINTS /usr/local/cuda/bin "${PROJECT_SOURCE_DIR}/.cuda/bin")
  if(TESSERA_NVCC)
    set(CMAKE_CUDA_COMPILER "${TESSERA_NVCC}")
  endif()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "Tessera: CUDA kernels skipped: no nvcc on this machine and none in .cuda/; this build is CPU-only")
  return()
endif()

set(CMAKE_CUDA_ARCHITECTURES "80-real;90a-real" CACHE STRING "GPU architectures to build for")
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(TESSERA_HAVE_CUDA ON)
message(STATUS "Tessera: CUDA kernels built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
