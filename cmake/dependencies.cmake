# Libraries, all from the distribution's packages.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
# Finds protobuf, too, by whichever of CMake's two ways it was built with; found by the other one before, newer packages
# refuse it.
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
# Abseil calls locks by pointer, Lock() and Unlock() deprecated since 2026; the one of Debian 12 has no others.
if(absl_VERSION VERSION_GREATER_EQUAL 20260101)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(hwy CONFIG REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(benchmark CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)

find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
