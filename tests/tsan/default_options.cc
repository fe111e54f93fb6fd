// ThreadSanitizer's options for every program of the tsan build; TSAN_OPTIONS overrides them.

// The distribution's libraries are not instrumented, so only part of their synchronization is seen; their calls of
// memmove and the like must not count as races. Their locks still order our own accesses.
extern "C" const char* __tsan_default_options();
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
