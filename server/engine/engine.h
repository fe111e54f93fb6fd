// Takes batches from the scheduler and runs them: one thread for each slot of the device.
//
// A slot's thread waits in Scheduler::TakeBatch, drops jobs that have ended or expired, moves the rest to kRunning,
// runs them, and finishes each with its own status. Where a batch of several jobs fails recoverably, each of its jobs
// is run again alone, so that only the guilty one fails; results do not depend on the batch, so the others lose time
// only.
//
// A watchdog thread looks every few milliseconds while there is work, and for kWatchedIdle after it; then it sleeps
// until a batch runs. It ends jobs whose deadline passes, in the queue or while they run; once no job of a call of
// Device::Run is wanted any more, whoever ended them, it asks the device to stop; and it finds a call that lasts longer
// than it may. A batch that hangs, like a sticky error, means that the device is lost: whoever wants to know hears it
// first, then jobs in flight and waiting are finished with UNAVAILABLE, the scheduler is closed, and the process must
// end.
//
// A hang is counted in looks of the watchdog, not in time: a process that was stopped, or starved of its cores, has
// looked as little as its device's threads have run.
//
// A job keeps its buffers until the device has let go of them, whoever ends it and when: the slot's thread holds it
// while Device::Run lasts.
#ifndef TESSERA_SERVER_ENGINE_ENGINE_H_
#define TESSERA_SERVER_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/clock/clock.h"
#include "server/device/device.h"
#include "server/engine/batch_runner.h"
#include "server/scheduler/scheduler.h"

namespace tessera {

// What the engine tells whoever keeps the books. Called on the engine's threads with no lock held; must be thread-safe
// and quick.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // A call of Device::Run has ended, well or not; with CANCELLED where it was stopped. `tokens` are query tokens.
  virtual void OnBatch(const DeviceInfo& device, DType dtype, int64_t jobs, int64_t tokens,
                       const BatchOutcome& outcome) = 0;
  // A job was dropped before a launch: DEADLINE_EXCEEDED where it had expired, CANCELLED where someone else had ended
  // it. `where` is kBatched before its first launch, kRunning before it was run again alone.
  virtual void OnDropped(absl::StatusCode code, Job::State where) = 0;
};

struct EngineOptions {
  // A call of Device::Run that takes longer than hang_timeout + cost / slowest_pace hangs; zero turns the check off.
  absl::Duration hang_timeout = absl::Seconds(60);
  // Cost a second (see AttendShape::Cost) that the device manages at its very worst, so that the largest call that is
  // admitted is not taken for a hang. REQUIRES: > 0.
  double slowest_pace = 1e9;
  // How often the watchdog looks, and so how soon it notices. REQUIRES: > 0.
  absl::Duration watchdog_period = absl::Milliseconds(5);
};

// One device. Several engines may share a scheduler. Every job in the scheduler is a DeviceJob of a kind that the
// runner knows.
class Engine {
 public:
  // Both run once, on an engine thread, when the device is lost: sticky error or hang. Neither may destroy the engine.
  struct LossFns {
    // First, with what callers are told from now on. No job has been ended for the loss yet.
    std::function<void(const absl::Status& told)> on_lost;
    // Last, with the device's own error. Jobs in flight have been finished and the scheduler closed and aborted. The
    // process should end with exit code 70.
    std::function<void(const absl::Status& why)> on_fatal;
  };

  // No job waits longer than this with nothing on the device: Scheduler's batch_delay is at most a second.
  static constexpr absl::Duration kWatchedIdle = absl::Seconds(2);
  // A slot that hangs keeps the destructor this long, in real time.
  static constexpr absl::Duration kHungSlotGrace = absl::Seconds(1);

  // The runner's device, the scheduler, clock and observer outlive the engine. Starts the threads.
  Engine(const EngineOptions& options, std::unique_ptr<BatchRunner> runner, Scheduler* scheduler, Clock* clock,
         EngineObserver* observer, LossFns on_loss);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Closes the scheduler, lets waiting jobs run, joins the threads. A slot that hangs for ever is abandoned with its
  // jobs: its thread touches nothing but them, the runner and the device after this, so the device must live as long as
  // the process.
  ~Engine();

 private:
  class Core;

  const std::shared_ptr<Core> core_;  // shared with the threads: an abandoned one outlives the engine
  std::vector<std::thread> slots_;
  std::thread watchdog_;
};

}  // namespace tessera

#endif  // TESSERA_SERVER_ENGINE_ENGINE_H_
