# Every switch of the build, in one place.
option(TESSERA_CUDA "Build the CUDA kernels where a compiler for them is found" ON)
option(TESSERA_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, address,undefined or thread")
set(TESSERA_REVISION "unknown" CACHE STRING "Source revision that the server reports")
