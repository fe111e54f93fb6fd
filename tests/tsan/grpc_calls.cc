// Shows ThreadSanitizer the order that a gRPC which was not built with it keeps between a batch of operations and its
// completion.
//
// gRPC's C++ API lives half in headers, which are instrumented with our programs, and half in libraries, which are not:
// what a thread does before it starts a batch looks unordered to what another does when the batch is complete. As in
// absl_mutex.cc, the definitions here take the place of the library's. What happened before the start of a batch
// happens before its completion is told: by the functor that is its tag (callback API), or by the completion queue.
// A server reactor's OnCancel and OnDone, which the library would run on threads of its own, run on one made here, so
// that what came before them is seen to. A call is let go of after its OnDone, and a server waits for all of its calls
// before it goes: what their OnDone did happens before the server's end.
//
// Needs -fno-access-control: the functors are private to gRPC's classes.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "grpc/grpc.h"
#include "grpcpp/support/callback_common.h"
#include "grpcpp/support/server_callback.h"

namespace {

template <typename Function>
Function* Library(const char* name) {
  void* const symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "tests/tsan/grpc_calls.cc: no %s in the shared libraries\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(symbol);
}

template <typename Tag>
void OrderedRun(grpc_completion_queue_functor* functor, int ok) {
  __tsan_acquire(functor);
  Tag::StaticRun(functor, ok);
}

// Makes the functor acquire before it runs, where `tag` is one.
template <typename Tag>
void Order(void* tag) {
  auto* const functor = static_cast<grpc_completion_queue_functor*>(tag);
  if (functor->functor_run == &Tag::StaticRun) functor->functor_run = &OrderedRun<Tag>;
}

// Runs tasks one after the other. Lives as long as the process.
class Worker {
 public:
  static Worker& Get() {
    static auto* const worker = new Worker;
    return *worker;
  }

  void Run(std::function<void()> task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

 private:
  Worker() {
    std::thread([this] { Work(); }).detach();
  }

  void Work() {
    while (true) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
};

// Where calls that are over and the end of their server meet.
char ended_calls;

}  // namespace

namespace grpc::internal {

void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  __tsan_acquire(this);
  if (inline_ondone) {
    CallOnDone();
  } else {
    Worker::Get().Run([this] { CallOnDone(); });
  }
}

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  __tsan_acquire(&on_cancel_conditions_remaining_);  // the handler counted there once it had made the reactor
  if (reactor->InternalInlineable()) {
    reactor->OnCancel();
    return;
  }
  Ref();  // the call must not end before
  Worker::Get().Run([this, reactor] {
    reactor->OnCancel();
    __tsan_release(this);  // whoever finds that the call is done may count in the library, unseen
    MaybeDone();
  });
}

}  // namespace grpc::internal

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t op_count, void* tag, void* reserved) {
  static auto* const library = Library<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  Order<grpc::internal::CallbackWithSuccessTag>(tag);
  Order<grpc::internal::CallbackWithStatusTag>(tag);
  __tsan_release(tag);
  return library(call, ops, op_count, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  static auto* const library = Library<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = library(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag, gpr_timespec deadline, void* reserved) {
  static auto* const library = Library<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = library(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

void grpc_call_unref(grpc_call* call) {
  static auto* const library = Library<decltype(grpc_call_unref)>("grpc_call_unref");
  __tsan_release(&ended_calls);
  library(call);
}

void grpc_server_destroy(grpc_server* server) {
  static auto* const library = Library<decltype(grpc_server_destroy)>("grpc_server_destroy");
  __tsan_acquire(&ended_calls);
  library(server);
}

}  // extern "C"
