#include "agent/preload/verbs_extended.h"

#include <stddef.h>

#include "agent/preload/control_lock.h"
#include "agent/preload/pointer_table.h"
#include "agent/preload/qp_count.h"
#include "agent/preload/qp_timing.h"
#include "agent/preload/verbs_tick.h"

namespace orrery::preload {
namespace {

// One pointer after another from wr_atomic_cmp_swp to wr_abort. What was appended later (wr_atomic_write) is left
// alone: the provider's struct may end before it.
struct QpPointers {
  decltype(ibv_qp_ex::wr_atomic_cmp_swp) atomic_cmp_swp;
  decltype(ibv_qp_ex::wr_atomic_fetch_add) atomic_fetch_add;
  decltype(ibv_qp_ex::wr_bind_mw) bind_mw;
  decltype(ibv_qp_ex::wr_local_inv) local_inv;
  decltype(ibv_qp_ex::wr_rdma_read) rdma_read;
  decltype(ibv_qp_ex::wr_rdma_write) rdma_write;
  decltype(ibv_qp_ex::wr_rdma_write_imm) rdma_write_imm;
  decltype(ibv_qp_ex::wr_send) send;
  decltype(ibv_qp_ex::wr_send_imm) send_imm;
  decltype(ibv_qp_ex::wr_send_inv) send_inv;
  decltype(ibv_qp_ex::wr_send_tso) send_tso;
  decltype(ibv_qp_ex::wr_set_inline_data) set_inline_data;
  decltype(ibv_qp_ex::wr_set_inline_data_list) set_inline_data_list;
  decltype(ibv_qp_ex::wr_set_sge) set_sge;
  decltype(ibv_qp_ex::wr_set_sge_list) set_sge_list;
  decltype(ibv_qp_ex::wr_start) start;
  decltype(ibv_qp_ex::wr_complete) complete;
  decltype(ibv_qp_ex::wr_abort) abort;
};

// Between wr_start and wr_complete a queue pair belongs to one thread, by the rules of verbs.
struct ExtendedQp {
  const void* key;
  QpPointers real;
  SendTally tally;
  uint64_t length;  // of the request that is being built
  unsigned flags;
  int opcode;
  uint32_t requests;
};

struct ExtendedCq {
  const void* key;
  decltype(ibv_cq_ex::start_poll) start_poll;
  decltype(ibv_cq_ex::next_poll) next_poll;
};

PointerTable<ExtendedQp, 2048> extended_qps;
PointerTable<ExtendedCq, 512> extended_cqs;
constinit ControlLock control_lock;

// Never null: the pointers lead here only while the entry is in the table.
ExtendedQp& of(ibv_qp_ex* qp) {
  return *extended_qps.find(qp);
}

void finish_request(ibv_qp_ex* qp, ExtendedQp& known, bool alone) {
  if (known.requests == 0) return;
  if (Qp* counted = find_qp(&qp->qp_base))
    tally_one(*counted, known.opcode, known.length, known.flags, alone, &known.tally);
}

ExtendedQp& begin_request(ibv_qp_ex* qp, int opcode, uint64_t length = 0) {
  ExtendedQp& known = of(qp);
  finish_request(qp, known, false);
  ++known.requests;
  known.opcode = opcode;
  known.length = length;
  known.flags = qp->wr_flags;
  return known;
}

void on_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap) {
  begin_request(qp, IBV_WR_ATOMIC_CMP_AND_SWP).real.atomic_cmp_swp(qp, rkey, address, compare, swap);
}
void on_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t value) {
  begin_request(qp, IBV_WR_ATOMIC_FETCH_AND_ADD).real.atomic_fetch_add(qp, rkey, address, value);
}
void on_bind_mw(ibv_qp_ex* qp, ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info* info) {
  begin_request(qp, IBV_WR_BIND_MW).real.bind_mw(qp, window, rkey, info);
}
void on_local_inv(ibv_qp_ex* qp, uint32_t rkey) {
  begin_request(qp, IBV_WR_LOCAL_INV).real.local_inv(qp, rkey);
}
void on_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  begin_request(qp, IBV_WR_RDMA_READ).real.rdma_read(qp, rkey, address);
}
void on_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  begin_request(qp, IBV_WR_RDMA_WRITE).real.rdma_write(qp, rkey, address);
}
void on_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 immediate) {
  begin_request(qp, IBV_WR_RDMA_WRITE_WITH_IMM).real.rdma_write_imm(qp, rkey, address, immediate);
}
void on_send(ibv_qp_ex* qp) {
  begin_request(qp, IBV_WR_SEND).real.send(qp);
}
void on_send_imm(ibv_qp_ex* qp, __be32 immediate) {
  begin_request(qp, IBV_WR_SEND_WITH_IMM).real.send_imm(qp, immediate);
}
void on_send_inv(ibv_qp_ex* qp, uint32_t rkey) {
  begin_request(qp, IBV_WR_SEND_WITH_INV).real.send_inv(qp, rkey);
}
void on_send_tso(ibv_qp_ex* qp, void* header, uint16_t header_bytes, uint16_t segment) {
  begin_request(qp, IBV_WR_TSO, header_bytes).real.send_tso(qp, header, header_bytes, segment);
}

void on_set_inline_data(ibv_qp_ex* qp, void* data, size_t bytes) {
  ExtendedQp& known = of(qp);
  known.length += bytes;
  known.flags |= IBV_SEND_INLINE;
  known.real.set_inline_data(qp, data, bytes);
}
void on_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* parts) {
  ExtendedQp& known = of(qp);
  for (size_t i = 0; i < count; ++i) known.length += parts[i].length;
  known.flags |= IBV_SEND_INLINE;
  known.real.set_inline_data_list(qp, count, parts);
}
void on_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t bytes) {
  ExtendedQp& known = of(qp);
  known.length += bytes;
  known.real.set_sge(qp, lkey, address, bytes);
}
void on_set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* parts) {
  ExtendedQp& known = of(qp);
  for (size_t i = 0; i < count; ++i) known.length += parts[i].length;
  known.real.set_sge_list(qp, count, parts);
}

// While the provider may hold a lock (until wr_complete) nothing is done but counting.
void look_around(ibv_qp_ex* qp) {
  if (arm() == kSeeking) tick_sometimes(thread_state.calls_to_tick);
  Qp* known = find_qp(&qp->qp_base);
  if (known == nullptr || !is_counted(*known)) return;
  const uint64_t now = hot_now_ns();
  if (begins_burst(*known, now)) refresh_qp_plan(*known, now);
}

void on_start(ibv_qp_ex* qp) {
  look_around(qp);
  ExtendedQp& known = of(qp);
  known.real.start(qp);
  known.tally = SendTally{};
  known.requests = 0;
}

int on_complete(ibv_qp_ex* qp) {
  ExtendedQp& known = of(qp);
  finish_request(qp, known, known.requests == 1);
  SendTally tally = known.tally;  // after wr_complete the queue pair is another thread's
  const uint32_t requests = known.requests;
  const int result = known.real.complete(qp);
  Qp* counted = find_qp(&qp->qp_base);
  if (counted == nullptr || !is_counted(*counted) || requests == 0) return result;
  if (result != 0) {
    tally = SendTally{};
    tally.failed_posts = requests;
  }
  commit_tally(*counted, tally, fast_now_ns());
  return result;
}

void on_abort(ibv_qp_ex* qp) {
  of(qp).real.abort(qp);
}

// Calls `exchange(pointer in the object, our function, where the real one is kept)` for each of them.
template <typename Exchange>
void for_each_pointer(ibv_qp_ex* qp, QpPointers& real, Exchange exchange) {
  exchange(&qp->wr_atomic_cmp_swp, on_atomic_cmp_swp, &real.atomic_cmp_swp);
  exchange(&qp->wr_atomic_fetch_add, on_atomic_fetch_add, &real.atomic_fetch_add);
  exchange(&qp->wr_bind_mw, on_bind_mw, &real.bind_mw);
  exchange(&qp->wr_local_inv, on_local_inv, &real.local_inv);
  exchange(&qp->wr_rdma_read, on_rdma_read, &real.rdma_read);
  exchange(&qp->wr_rdma_write, on_rdma_write, &real.rdma_write);
  exchange(&qp->wr_rdma_write_imm, on_rdma_write_imm, &real.rdma_write_imm);
  exchange(&qp->wr_send, on_send, &real.send);
  exchange(&qp->wr_send_imm, on_send_imm, &real.send_imm);
  exchange(&qp->wr_send_inv, on_send_inv, &real.send_inv);
  exchange(&qp->wr_send_tso, on_send_tso, &real.send_tso);
  exchange(&qp->wr_set_inline_data, on_set_inline_data, &real.set_inline_data);
  exchange(&qp->wr_set_inline_data_list, on_set_inline_data_list, &real.set_inline_data_list);
  exchange(&qp->wr_set_sge, on_set_sge, &real.set_sge);
  exchange(&qp->wr_set_sge_list, on_set_sge_list, &real.set_sge_list);
  exchange(&qp->wr_start, on_start, &real.start);
  exchange(&qp->wr_complete, on_complete, &real.complete);
  exchange(&qp->wr_abort, on_abort, &real.abort);
}

// What the provider left null stays null: programs test for it.
struct Replace {
  template <typename Function>
  void operator()(Function** place, Function* ours, Function** real) const {
    *real = *place;
    if (*place != nullptr) __atomic_store_n(place, ours, __ATOMIC_RELEASE);
  }
};
struct PutBack {
  template <typename Function>
  void operator()(Function** place, Function* ours, Function** real) const {
    if (*place == ours) __atomic_store_n(place, *real, __ATOMIC_RELEASE);
  }
};

void count_current(ibv_cq_ex* cq) {
  if (!attached() || cq->read_qp_num == nullptr) return;
  Qp* known = find_qp(cq->context, cq->read_qp_num(cq));
  if (known == nullptr) return;
  CompletionTally tally{};
  if (cq->status != IBV_WC_SUCCESS) {
    tally.errors = 1;
  } else if (cq->read_opcode == nullptr || (cq->read_opcode(cq) & IBV_WC_RECV) == 0) {
    tally.sends = 1;
  } else {
    tally.receives = 1;
    if (cq->read_byte_len != nullptr) tally.rx_bytes = cq->read_byte_len(cq);
  }
  count_completions(*known, tally);
}

// No entry: destroying the queue is being tried, or has failed, under a thread that polls it. Its own pointers are
// back.
int on_start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
  if (__atomic_load_n(&held_qps, __ATOMIC_RELAXED) != 0 && arm() != kOff) [[unlikely]]
    release_due_sends();
  const ExtendedCq* known = extended_cqs.find(cq);
  const int result = known != nullptr ? known->start_poll(cq, attributes) : cq->start_poll(cq, attributes);
  if (result == 0) count_current(cq);
  return result;
}

int on_next_poll(ibv_cq_ex* cq) {
  const ExtendedCq* known = extended_cqs.find(cq);
  const int result = known != nullptr ? known->next_poll(cq) : cq->next_poll(cq);
  if (result == 0) count_current(cq);
  return result;
}

}  // namespace

void adopt_extended_qp(ibv_qp_ex* qp) {
  if (qp == nullptr || qp->wr_start == on_start || qp->wr_start == nullptr || qp->wr_complete == nullptr) return;
  const ControlLock::Guard guard(control_lock);
  Qp* known = find_qp(&qp->qp_base);
  if (known == nullptr) return;
  // Even if its pointers stay the provider's: nothing held may be overtaken, nor posted in the middle of a wr_start,
  // with which providers take their lock.
  known->extended = true;
  drain_held_sends(*known, false);
  ExtendedQp* entry = extended_qps.find(qp);  // one that was destroyed in a way we do not see
  if (entry == nullptr) entry = extended_qps.place_for(qp);
  if (entry == nullptr) return;
  entry->requests = 0;
  for_each_pointer(qp, entry->real, [](auto** place, auto*, auto** real) { *real = *place; });
  extended_qps.publish(*entry, qp);
  for_each_pointer(qp, entry->real, Replace{});
}

bool release_extended_qp(ibv_qp* qp) {
  const Qp* known = find_qp(qp);
  if (known == nullptr || !known->extended) return false;
  const ControlLock::Guard guard(control_lock);
  ExtendedQp* entry = extended_qps.find(qp);
  if (entry == nullptr) return false;
  for_each_pointer(reinterpret_cast<ibv_qp_ex*>(qp), entry->real, PutBack{});
  extended_qps.remove(*entry);
  return true;
}

void adopt_extended_cq(ibv_cq_ex* cq) {
  if (cq == nullptr || cq->start_poll == on_start_poll || cq->start_poll == nullptr || cq->next_poll == nullptr) return;
  const ControlLock::Guard guard(control_lock);
  ExtendedCq* entry = extended_cqs.find(cq);
  if (entry == nullptr) entry = extended_cqs.place_for(cq);
  if (entry == nullptr) return;
  entry->start_poll = cq->start_poll;
  entry->next_poll = cq->next_poll;
  extended_cqs.publish(*entry, cq);
  __atomic_store_n(&cq->start_poll, &on_start_poll, __ATOMIC_RELEASE);
  __atomic_store_n(&cq->next_poll, &on_next_poll, __ATOMIC_RELEASE);
}

bool release_extended_cq(ibv_cq* cq) {
  const ControlLock::Guard guard(control_lock);
  ExtendedCq* entry = extended_cqs.find(cq);
  if (entry == nullptr) return false;
  auto* extended = reinterpret_cast<ibv_cq_ex*>(cq);
  if (extended->start_poll == on_start_poll) extended->start_poll = entry->start_poll;
  if (extended->next_poll == on_next_poll) extended->next_poll = entry->next_poll;
  extended_cqs.remove(*entry);
  return true;
}

}  // namespace orrery::preload
