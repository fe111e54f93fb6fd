// ThreadSanitizer's options for every program of the tsan build; TSAN_OPTIONS overrides them.

// The distribution's libraries are not instrumented, so only part of their synchronization is seen; their calls of
// memmove and the like must not count as races. Their locks still order our own accesses.
extern "C" const char* __tsan_default_options();
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

// gRPC's callback API lives half in headers, which are instrumented with our programs, and half in a library, which is
// not: what one of its threads hands to another through the library looks unordered. Only accesses made by gRPC's own
// inline functions, and by the std::function that they keep their callbacks in, are passed over; not what they call.
extern "C" const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {
  return "race_top:^grpc::internal::\n"
         "race_top: grpc::internal::\n"
         "race_top:^grpc::ByteBuffer::\n"
         "race_top:^std::function<void (bool)>::\n"
         "race_top:^std::_Function_base::\n"
         "race_top:std::__is_tuple_like<\n";
}
