// ThreadSanitizer's options for every program of the tsan build; TSAN_OPTIONS overrides them.

// The distribution's libraries are not instrumented, so only part of their synchronization is seen; their calls of
// memmove and the like must not count as races. Their locks still order our own accesses. gRPC takes its last threads
// down on a thread that may outlast main, so finished threads that nobody has joined yet are no leak.
extern "C" const char* __tsan_default_options();
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1:report_thread_leaks=0"; }
