# One library target a folder, with its tests and benches beside the code.
#
#   tessera_library(NAME name SOURCES ... DEPS ...)      static library tessera_<name>
#   tessera_test(NAME name SOURCES ... DEPS ... [LABELS ...])   GoogleTest binary <name>, run by ctest
#   tessera_bench(NAME name SOURCES ... DEPS ...)        Google Benchmark binary <name>
#   tessera_binary(NAME name SOURCES ... DEPS ...)       program <name>

# What ThreadSanitizer must be told about a library that was not built with it, linked into every program.
if(TESSERA_SANITIZE STREQUAL "thread")
  add_library(tessera_tsan OBJECT "${PROJECT_SOURCE_DIR}/tests/tsan/absl_mutex.cc"
                                  "${PROJECT_SOURCE_DIR}/tests/tsan/default_options.cc"
                                  "${PROJECT_SOURCE_DIR}/tests/tsan/grpc_calls.cc")
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/tsan/grpc_calls.cc" PROPERTIES COMPILE_OPTIONS
                                                                                          -fno-access-control)
  target_link_libraries(tessera_tsan PUBLIC absl::synchronization gRPC::grpc++ ${CMAKE_DL_LIBS})
endif()

# Older ones forget the mutexes that are destroyed, so there the tests also look for lock cycles.
if(absl_VERSION VERSION_GREATER_EQUAL 20240101)
  add_library(tessera_lock_cycles OBJECT "${PROJECT_SOURCE_DIR}/tests/abseil/lock_cycles.cc")
  target_link_libraries(tessera_lock_cycles PUBLIC absl::synchronization)
endif()

function(tessera_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_library(tessera_${ARG_NAME} STATIC ${ARG_SOURCES})
  target_include_directories(tessera_${ARG_NAME} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(tessera_${ARG_NAME} PUBLIC ${ARG_DEPS})
endfunction()

function(tessera_binary)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
  if(TARGET tessera_tsan)
    target_link_libraries(${ARG_NAME} PRIVATE tessera_tsan)
  endif()
endfunction()

function(tessera_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  tessera_binary(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(TARGET tessera_lock_cycles)
    target_link_libraries(${ARG_NAME} PRIVATE tessera_lock_cycles)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

function(tessera_bench)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  tessera_binary(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} benchmark::benchmark)
endfunction()
