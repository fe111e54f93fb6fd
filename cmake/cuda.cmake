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

# Targets name the architectures they are for (kernels/cuda/CMakeLists.txt); this one only lets CMake test the compiler.
set(CMAKE_CUDA_ARCHITECTURES 80-real)
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know that nvcc has it
endif()

# The runtime, for targets that the C++ compiler links. FindCUDAToolkit wants shared libraries that the wheels lack.
find_library(TESSERA_CUDART cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
find_package(Threads REQUIRED)
add_library(tessera_cudart INTERFACE)
target_include_directories(tessera_cudart SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_link_libraries(tessera_cudart INTERFACE "${TESSERA_CUDART}" Threads::Threads ${CMAKE_DL_LIBS} rt)

add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
set(TESSERA_HAVE_CUDA ON)
message(STATUS "Tessera: CUDA kernels built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
