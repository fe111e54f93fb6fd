// Takes batches from the scheduler and runs them: one thread for each slot of each device.
//
// A slot's thread waits in Scheduler::TakeBatch, drops jobs that have ended or expired, moves the rest to kRunning, runs
// them, and finishes each with its own status. A watchdog looks for a batch that runs longer than `hang_timeout`.
#ifndef TESSERA_SERVER_ENGINE_ENGINE_H_
#define TESSERA_SERVER_ENGINE_ENGINE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/device/device.h"
#include "server/scheduler/scheduler.h"

namespace tessera {

// What the engine tells whoever keeps the books. Called on slot threads; must be thread-safe and quick.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // A batch has ended, well or not.
  virtual void OnBatch(const DeviceInfo& device, DType dtype, int64_t jobs, int64_t tokens,
                       const BatchOutcome& outcome) = 0;
  // A job was dropped before its launch, because it had expired or been cancelled.
  virtual void OnDropped(absl::StatusCode code, Job::State where) = 0;
};

struct EngineOptions {
  absl::Duration hang_timeout = absl::Seconds(60);
};

class Engine {
 public:
  // Runs once, on an engine thread, when a device is lost: sticky error or hang. In-flight jobs have been finished with
  // UNAVAILABLE and the scheduler closed and aborted. The process should end with exit code 70.
  using FatalFn = std::function<void(const absl::Status&)>;

  // The device, scheduler, clock and observer outlive the engine. Starts the threads.
  Engine(const EngineOptions& options, Device* device, Scheduler* scheduler, Clock* clock, EngineObserver* observer,
         FatalFn on_fatal);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Closes the scheduler, lets waiting jobs run, joins the threads.
  ~Engine();

 private:
  // Fill in.
};

}  // namespace tessera

#endif  // TESSERA_SERVER_ENGINE_ENGINE_H_
