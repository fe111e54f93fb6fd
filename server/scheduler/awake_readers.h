// Threads that read messages stay awake for a moment where the next one is about to come: a thread that sleeps is woken
// on a processor that sleeps as well, which on a virtual machine takes longer than the message does.
#ifndef TESSERA_SERVER_SCHEDULER_AWAKE_READERS_H_
#define TESSERA_SERVER_SCHEDULER_AWAKE_READERS_H_

#include "absl/time/time.h"

namespace tessera {

// From now on for `time`, a day at most, of the real and steady clock; a later call replaces it. For the whole process,
// as its readers are. Thread-safe.
void KeepReadersAwake(absl::Duration time);

// Whether who waits for messages is to stay awake now.
bool ReadersStayAwake();

}  // namespace tessera

#endif  // TESSERA_SERVER_SCHEDULER_AWAKE_READERS_H_
