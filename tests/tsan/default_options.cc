// ThreadSanitizer's options for every program of the tsan build; TSAN_OPTIONS overrides them.

// The distribution's libraries are not instrumented, so only part of their synchronization is seen; their calls of
// memmove and the like must not count as races. Their locks still order our own accesses. gRPC takes its last threads
// down on a thread that may outlast main, so finished threads that nobody has joined yet are no leak.
extern "C" const char* __tsan_default_options();
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1:report_thread_leaks=0"; }

// The one place where an order is not shown: a generic service's handlers (tessera-load's echo) lie in the library
// whole, with the count of callbacks by which the last of them knows that it is. Their destructor runs no code of ours.
extern "C" const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {
  return "race:CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>::ServerCallbackReaderWriterImpl::"
         "~ServerCallbackReaderWriterImpl\n";
}
