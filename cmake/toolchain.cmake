# Compiler, linker and cache settings common to all targets.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

# mold and lld link the large gRPC binaries several times faster than bfd.
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT TESSERA_FUZZ)
  add_link_options(-fuse-ld=mold)
endif()

# nvcc's own output is not pedantic C++; cmake/cuda.cmake sets its warnings.
foreach(option -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -fno-omit-frame-pointer)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${option}>)
endforeach()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety> $<$<COMPILE_LANGUAGE:CXX>:-Werror=thread-safety>)
endif()

if(TESSERA_SANITIZE)
  add_compile_options(-fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${TESSERA_SANITIZE})
endif()
