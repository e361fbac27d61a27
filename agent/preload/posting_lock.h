// Who may update the counters of a queue pair's sending side: without a locked instruction as long as one thread posts,
// with one from the moment another does.
//
// A locked instruction after a post waits until the doorbell of the post has left the processor. So the first thread
// that posts keeps the lock to itself (`Qp::poster`): it stores and looks, and nothing between. The first other thread
// takes that away for good, by a barrier that the kernel carries out on the first one's processor (membarrier: one
// system call in the life of a queue pair that threads share); then all exchange a word. It is tried for and never
// waited for.
#pragma once

#include "agent/preload/qp_table.h"

namespace orrery::preload {

// On the control path: the kernel takes some milliseconds, once in a process. Until then, and where it refuses, every
// thread exchanges.
void prepare_posting_locks();

// What end_sending() wants; null when another thread is at it.
uint32_t* begin_sending_shared(Qp& qp);

inline uint32_t* begin_sending(Qp& qp) {
  const void* self = &thread_state;
  if (__atomic_load_n(&qp.poster, __ATOMIC_RELAXED) != self) [[unlikely]]
    return begin_sending_shared(qp);
  if (__atomic_load_n(&qp.poster_at_work, __ATOMIC_RELAXED) != 0) [[unlikely]]
    return nullptr;  // a handler of a signal that interrupted it
  __atomic_store_n(&qp.poster_at_work, 1u, __ATOMIC_RELAXED);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);  // the other half is the membarrier of who takes it away
  if (__atomic_load_n(&qp.poster, __ATOMIC_RELAXED) == self) [[likely]]
    return &qp.poster_at_work;
  __atomic_store_n(&qp.poster_at_work, 0u, __ATOMIC_RELEASE);
  return begin_sending_shared(qp);
}

inline void end_sending(uint32_t* lock) {
  __atomic_store_n(lock, 0u, __ATOMIC_RELEASE);
}

}  // namespace orrery::preload
