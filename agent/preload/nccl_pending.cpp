#include "agent/preload/nccl_pending.h"

namespace orrery::preload {

PendingComm pending_comms[kMaxPendingComms];
uint32_t pending_comm_count = 0;

PendingComm* add_pending_comm(const PendingComm& values) {
  for (PendingComm& entry : pending_comms) {
    const void* free = nullptr;
    if (!__atomic_compare_exchange_n(&entry.owner, &free, static_cast<const void*>(&pending_comms), false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue;
    entry.copy = values.copy;
    entry.place = values.place;
    entry.parent = values.parent;
    entry.facts = values.facts;
    entry.ticket = values.ticket;
    __atomic_store_n(&entry.owner, values.owner, __ATOMIC_RELEASE);
    __atomic_fetch_add(&pending_comm_count, 1u, __ATOMIC_RELAXED);
    return &entry;
  }
  return nullptr;
}

void forget_pending_comms() {
  for (PendingComm& entry : pending_comms) entry = PendingComm{};
  pending_comm_count = 0;
}

}  // namespace orrery::preload
