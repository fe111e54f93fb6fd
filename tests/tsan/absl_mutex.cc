// Shows ThreadSanitizer the locks of an Abseil that was not built with it.
//
// The distribution's libabsl_synchronization is not instrumented, so ThreadSanitizer sees no order between two holders
// of an absl::Mutex and calls every guarded field a race. This file is linked into every program of the tsan build. Its
// definitions take the place of the shared library's, gRPC's own calls included; each calls the library's and tells
// ThreadSanitizer that what happened before an unlock happens before the next lock.
//
// A condition is evaluated by whichever thread unlocks, which holds the lock then; it is wrapped accordingly.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/base/config.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

#define TESSERA_STRING(x) #x
#define TESSERA_EXPANDED_STRING(x) TESSERA_STRING(x)

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

// The library's definition of the symbol that mangles to "_ZN4absl<inline namespace>" + `rest`, or, with `is_const`,
// "_ZNK...".
void* LibrarySymbol(const char* rest, bool is_const = false) {
  const std::string space = TESSERA_EXPANDED_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name =
      std::string(is_const ? "_ZNK4absl" : "_ZN4absl") + std::to_string(space.size()) + space + rest;
  void* const symbol = dlsym(RTLD_NEXT, name.c_str());
  if (symbol == nullptr) {
    std::fprintf(stderr, "tests/tsan/absl_mutex.cc: no %s in the shared libraries\n", name.c_str());
    std::abort();
  }
  return symbol;
}

template <typename Function>
Function* Library(const char* rest, bool is_const = false) {
  return reinterpret_cast<Function*>(LibrarySymbol(rest, is_const));
}

// `condition` as a thread that holds `mutex` evaluates it.
class OrderedCondition {
 public:
  OrderedCondition(Mutex* mutex, const Condition& condition)
      : mutex_(mutex), inner_(condition), outer_(this, &OrderedCondition::Eval) {}
  const Condition& get() const { return outer_; }

 private:
  bool Eval() {
    __tsan_acquire(mutex_);
    const bool holds = inner_.Eval();
    __tsan_release(mutex_);
    return holds;
  }

  Mutex* const mutex_;
  const Condition& inner_;
  const Condition outer_;
};

}  // namespace

void Mutex::Lock() {
  static auto* const library = Library<void(Mutex*)>("5Mutex4LockEv");
  library(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static auto* const library = Library<bool(Mutex*)>("5Mutex7TryLockEv");
  const bool locked = library(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static auto* const library = Library<void(Mutex*)>("5Mutex6UnlockEv");
  __tsan_release(this);
  library(this);
}

void Mutex::ReaderLock() {
  static auto* const library = Library<void(Mutex*)>("5Mutex10ReaderLockEv");
  library(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static auto* const library = Library<void(Mutex*)>("5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  library(this);
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const library = Library<void(Mutex*, const Condition&)>("5Mutex8LockWhenERKNS0_9ConditionE");
  const OrderedCondition ordered(this, condition);
  library(this, ordered.get());
  __tsan_acquire(this);
}

void Mutex::Await(const Condition& condition) {
  static auto* const library = Library<void(Mutex*, const Condition&)>("5Mutex5AwaitERKNS0_9ConditionE");
  const OrderedCondition ordered(this, condition);
  __tsan_release(this);
  library(this, ordered.get());
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const library =
      Library<bool(Mutex*, const Condition&, Duration)>("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const OrderedCondition ordered(this, condition);
  __tsan_release(this);
  const bool holds = library(this, ordered.get(), timeout);
  __tsan_acquire(this);
  return holds;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static auto* const library =
      Library<bool(Mutex*, const Condition&, Time)>("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const OrderedCondition ordered(this, condition);
  __tsan_release(this);
  const bool holds = library(this, ordered.get(), deadline);
  __tsan_acquire(this);
  return holds;
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const library = Library<void(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  library(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static auto* const library =
      Library<bool(CondVar*, Mutex*, Duration)>("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool timed_out = library(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const library =
      Library<bool(CondVar*, Mutex*, Time)>("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool timed_out = library(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

void Notification::Notify() {
  static auto* const library = Library<void(Notification*)>("12Notification6NotifyEv");
  __tsan_release(this);
  library(this);
}

void Notification::WaitForNotification() const {
  static auto* const library =
      Library<void(const Notification*)>("12Notification19WaitForNotificationEv", /*is_const=*/true);
  library(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const library = Library<bool(const Notification*, Duration)>(
      "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE", /*is_const=*/true);
  const bool notified = library(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl
