// Exact counts of what queue pairs send and complete, at the price of a few plain stores a post, and of one locked
// instruction where threads share a queue pair (posting_lock.h).
//
// The counters of the sending side are updated by whoever has begin_sending()'s lock, which is tried for and never
// waited for: a thread that does not get it adds to `Qp::spill` by atomic additions, and the next that does (in a later
// post or poll, at the latest at the end of the flow) moves them on. Those of the receiving side are added to
// atomically.
#pragma once

#include "agent/preload/posting_lock.h"
#include "agent/preload/qp_table.h"

namespace orrery::preload {

// Whether the current agent counts this queue pair.
inline bool is_counted(const Qp& qp) {
  return __atomic_load_n(&qp.live_generation, __ATOMIC_ACQUIRE) == generation() && attached();
}

inline void add_owned(uint64_t* counter, uint64_t value) {
  shm::store_relaxed(counter, shm::load_relaxed(counter) + value);
}
inline void add_shared(uint64_t* counter, uint64_t value) {
  __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

inline uint64_t length_of(const ibv_send_wr& wr) {
  uint64_t length = 0;
  for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
  return length;
}

// A clear-to-send of NCCL: one to eight slots of 32 or 64 bytes, inline or unsignaled, from a side that receives and
// sends nothing else (facts: the IB transport).
inline bool may_be_control(const Qp& qp, uint64_t length, unsigned flags) {
  return length != 0 && length <= 8 * 64 && length % 32 == 0 &&
         ((flags & IBV_SEND_INLINE) != 0 || (flags & IBV_SEND_SIGNALED) == 0) &&
         __atomic_load_n(&qp.has_received, __ATOMIC_RELAXED) && !__atomic_load_n(&qp.sends_data, __ATOMIC_RELAXED);
}

// Adds one work request of `length` bytes. `alone`: it is its own chain.
void tally_one(Qp& qp, int opcode, uint64_t length, unsigned flags, bool alone, SendTally* tally);
// What the chain adds when the provider takes all of it. To be asked before the post: as soon as the provider has the
// requests another thread may poll their completions and free them.
SendTally tally_chain(Qp& qp, const ibv_send_wr* wr);
void commit_tally(Qp& qp, const SendTally& tally, uint64_t now);

// Counts a chain that the provider refused from `refused` on. `now` is the time of the post. Any thread; exact.
// Precondition: is_counted().
void count_refused(Qp& qp, const ibv_send_wr* wr, const ibv_send_wr* refused, uint64_t now);

// Moves on what is in `spill`. Precondition: between begin_sending() and end_sending().
void collect_spill(Qp& qp);
void collect_spill_if_free(Qp& qp);

// Precondition: between begin_sending() and end_sending().
inline void note_sent(Qp& qp, uint64_t now) {
  if (static_cast<int64_t>(now - qp.last_tx_ns) > static_cast<int64_t>(attachment.flowlet_gap_ns)) [[unlikely]] {
    shm::store_relaxed(&qp.flow->first_tx_ns, now);
    shm::store_relaxed(&qp.flow->bursts, shm::load_relaxed(&qp.flow->bursts) + 1);
  }
  shm::store_relaxed(&qp.last_tx_ns, now);
  shm::store_relaxed(&qp.flow->last_tx_ns, now);
}

// The usual post: one data transfer in one buffer. It outlasts the post in registers.
struct UsualPost {
  uint64_t length;
  uint64_t orrery_qp_counters::*kind;
  bool unsignaled;
};

// To be asked before the post, see tally_chain(). False when it is something else.
inline bool is_usual(const Qp& qp, const ibv_send_wr& wr, UsualPost* usual) {
  if (wr.next != nullptr || wr.num_sge != 1 || qp.loopback) return false;
  const uint64_t length = wr.sg_list[0].length;
  usual->length = length;
  usual->unsignaled = (wr.send_flags & IBV_SEND_SIGNALED) == 0 && !qp.sig_all;
  if (wr.opcode == IBV_WR_RDMA_WRITE && !may_be_control(qp, length, wr.send_flags))
    usual->kind = &orrery_qp_counters::writes;
  else if (wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && length != 0)
    usual->kind = &orrery_qp_counters::write_imms;
  else if (wr.opcode == IBV_WR_SEND)
    usual->kind = &orrery_qp_counters::sends;
  else
    return false;
  return true;
}

void count_usual_slow(Qp& qp, uint64_t length, uint64_t orrery_qp_counters::*kind, bool unsignaled, uint64_t now);
void count_usual_refused(Qp& qp, uint64_t now);

// It was taken.
inline void count_usual(Qp& qp, const UsualPost& usual, uint64_t now) {
  uint32_t* const lock = begin_sending(qp);
  if (lock == nullptr) [[unlikely]]
    return count_usual_slow(qp, usual.length, usual.kind, usual.unsignaled, now);
  if (qp.spilled) [[unlikely]]
    collect_spill(qp);
  if (!qp.sends_data) qp.sends_data = true;
  if (usual.unsignaled) ++qp.unsignaled_sends;
  qp.last_unsignaled = usual.unsignaled;
  note_sent(qp, now);
  add_owned(&qp.flow->tx_bytes, usual.length);
  add_owned(&qp.counters->posted_sends, 1);
  add_owned(&(qp.counters->*usual.kind), 1);
  end_sending(lock);
}

// What polling found for one queue pair.
struct CompletionTally {
  uint64_t sends, receives, errors, rx_bytes;
};
void count_completions(Qp& qp, const CompletionTally& tally);

}  // namespace orrery::preload
