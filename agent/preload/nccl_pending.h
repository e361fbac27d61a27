// Communicators that are being made and have no handle yet: in a group NCCL may hand the handle over only when the
// group ends, and a child of a non-blocking communicator gets its handle when the parent is ready again. Fixed size,
// lock-free; when it is full, such a communicator goes unrecorded.
#pragma once

#include <stdint.h>

#include "agent/preload/comm_table.h"

namespace orrery::preload {

struct PendingComm {
  // Whom it waits for: the thread whose group must end, or the parent that must become ready. Null: free.
  const void* owner;
  uint32_t copy;
  void** place;     // where NCCL will put the handle; null: it has been recorded already
  void* parent;     // handle; null without one
  Comm facts;       // handle apart
  uint32_t ticket;  // of the profiler's expectation, 0: none
};

// Null when there is no room.
PendingComm* add_pending_comm(const PendingComm& values);
// The entries of `owner` in `copy`, each taken out, so that no other thread sees it, and given to `settle`. An entry
// that `settle` puts back is not seen again.
template <typename Settle>
void take_pending_comms(const void* owner, uint32_t copy, Settle settle);

// In a forked child, whose parent goes on with them.
void forget_pending_comms();

inline constexpr uint32_t kMaxPendingComms = 32;
extern PendingComm pending_comms[kMaxPendingComms];
extern uint32_t pending_comm_count;

template <typename Settle>
void take_pending_comms(const void* owner, uint32_t copy, Settle settle) {
  if (__atomic_load_n(&pending_comm_count, __ATOMIC_RELAXED) == 0) return;
  for (PendingComm& entry : pending_comms) {
    const void* seen = __atomic_load_n(&entry.owner, __ATOMIC_ACQUIRE);
    if (seen != owner || entry.copy != copy) continue;
    if (!__atomic_compare_exchange_n(&entry.owner, &seen, static_cast<const void*>(&pending_comms), false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue;
    PendingComm taken = entry;
    __atomic_store_n(&entry.owner, nullptr, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&pending_comm_count, 1u, __ATOMIC_RELAXED);
    settle(taken);
  }
}

}  // namespace orrery::preload
