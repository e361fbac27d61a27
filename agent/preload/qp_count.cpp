#include "agent/preload/qp_count.h"

namespace orrery::preload {
namespace {

constexpr size_t kTallyWords = sizeof(SendTally) / sizeof(uint64_t);

void set_flag(bool* flag) {
  if (!__atomic_load_n(flag, __ATOMIC_RELAXED)) __atomic_store_n(flag, true, __ATOMIC_RELAXED);
}

// Precondition: between begin_sending() and end_sending().
void apply(Qp& qp, const SendTally& tally) {
  orrery_qp_counters& to = *qp.counters;
  add_owned(&qp.flow->tx_bytes, tally.tx_bytes);
  if (tally.rx_bytes != 0) add_shared(&qp.flow->rx_bytes, tally.rx_bytes);
  add_owned(&to.posted_sends, tally.posted_sends);
  add_owned(&to.failed_posts, tally.failed_posts);
  add_owned(&to.writes, tally.writes);
  add_owned(&to.write_imms, tally.write_imms);
  add_owned(&to.sends, tally.sends);
  add_owned(&to.reads, tally.reads);
  add_owned(&to.atomics_and_others, tally.atomics_and_others);
  add_owned(&to.control_writes, tally.control_writes);
  add_owned(&to.flush_reads, tally.flush_reads);
  add_owned(&to.zero_imms, tally.zero_imms);
  if (tally.unsignaled != 0) add_owned(&qp.unsignaled_sends, tally.unsignaled);
}

void spill(Qp& qp, const SendTally& tally) {
  const auto* from = reinterpret_cast<const uint64_t*>(&tally);
  auto* to = reinterpret_cast<uint64_t*>(&qp.spill);
  for (size_t i = 0; i < kTallyWords; ++i)
    if (from[i] != 0) add_shared(&to[i], from[i]);
  __atomic_store_n(&qp.spilled, 1u, __ATOMIC_RELEASE);
  collect_spill_if_free(qp);
}

// Some operations carry nothing, and their list of buffers means nothing.
uint64_t carried_by(const ibv_send_wr& wr) {
  if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_BIND_MW) return 0;
  return length_of(wr) + (wr.opcode == IBV_WR_TSO ? wr.tso.hdr_sz : 0);
}

void tally_data_write(Qp& qp, uint64_t length, SendTally* tally) {
  tally->tx_bytes += length;
  set_flag(&qp.sends_data);
}

}  // namespace

void tally_one(Qp& qp, int opcode, uint64_t length, unsigned flags, bool alone, SendTally* tally) {
  ++tally->posted_sends;
  const bool unsignaled = !qp.sig_all && (flags & IBV_SEND_SIGNALED) == 0;
  tally->unsignaled += unsignaled;
  shm::store_relaxed(&qp.last_unsignaled, unsignaled);
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      ++tally->writes;
      if (alone && may_be_control(qp, length, flags)) {
        ++tally->control_writes;
        tally->tx_bytes += length;
        return;
      }
      return tally_data_write(qp, length, tally);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      ++tally->write_imms;
      if (length == 0) ++tally->zero_imms;
      return tally_data_write(qp, length, tally);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_TSO:
      ++tally->sends;
      return tally_data_write(qp, length, tally);
    case IBV_WR_RDMA_READ:
      ++tally->reads;
      tally->rx_bytes += length;
      if (qp.loopback)
        ++tally->flush_reads;
      else
        set_flag(&qp.sends_data);
      return;
    case IBV_WR_LOCAL_INV:
    case IBV_WR_BIND_MW:
      ++tally->atomics_and_others;
      return;
    default:
      ++tally->atomics_and_others;
      return tally_data_write(qp, length, tally);
  }
}

void commit_tally(Qp& qp, const SendTally& tally, uint64_t now) {
  uint32_t* const lock = begin_sending(qp);
  if (lock == nullptr) return spill(qp, tally);
  if (qp.spilled) collect_spill(qp);
  if (tally.posted_sends != 0) note_sent(qp, now);
  apply(qp, tally);
  end_sending(lock);
}

SendTally tally_chain(Qp& qp, const ibv_send_wr* wr) {
  SendTally tally{};
  const bool alone = wr != nullptr && wr->next == nullptr;
  for (; wr != nullptr; wr = wr->next) {
    // A list that no provider takes is not looked at, as it may be shorter than it says.
    const bool too_long = qp.max_send_sge != 0 && wr->num_sge > static_cast<int>(qp.max_send_sge);
    tally_one(qp, wr->opcode, too_long ? 0 : carried_by(*wr), wr->send_flags, alone, &tally);
  }
  return tally;
}

void count_refused(Qp& qp, const ibv_send_wr* wr, const ibv_send_wr* refused, uint64_t now) {
  SendTally tally{};
  for (; wr != nullptr && wr != refused; wr = wr->next)
    tally_one(qp, wr->opcode, carried_by(*wr), wr->send_flags, false, &tally);
  for (; wr != nullptr; wr = wr->next) ++tally.failed_posts;
  commit_tally(qp, tally, now);
}

__attribute__((noinline)) void count_usual_slow(Qp& qp, uint64_t length, uint64_t orrery_qp_counters::*kind,
                                                bool unsignaled, uint64_t now) {
  SendTally tally{.tx_bytes = length, .posted_sends = 1, .unsignaled = unsignaled};
  if (kind == &orrery_qp_counters::writes) tally.writes = 1;
  if (kind == &orrery_qp_counters::write_imms) tally.write_imms = 1;
  if (kind == &orrery_qp_counters::sends) tally.sends = 1;
  set_flag(&qp.sends_data);
  shm::store_relaxed(&qp.last_unsignaled, unsignaled);
  commit_tally(qp, tally, now);
}

__attribute__((noinline)) void count_usual_refused(Qp& qp, uint64_t now) {
  if (is_counted(qp)) commit_tally(qp, {.failed_posts = 1}, now);
}

void collect_spill(Qp& qp) {
  __atomic_store_n(&qp.spilled, 0u, __ATOMIC_SEQ_CST);
  SendTally tally;
  auto* from = reinterpret_cast<uint64_t*>(&qp.spill);
  auto* to = reinterpret_cast<uint64_t*>(&tally);
  for (size_t i = 0; i < kTallyWords; ++i) to[i] = __atomic_exchange_n(&from[i], uint64_t{0}, __ATOMIC_ACQ_REL);
  apply(qp, tally);
}

void collect_spill_if_free(Qp& qp) {
  uint32_t* const lock = begin_sending(qp);
  if (lock == nullptr) return;
  if (__atomic_load_n(&qp.spilled, __ATOMIC_ACQUIRE) != 0) collect_spill(qp);
  end_sending(lock);
}

void count_completions(Qp& qp, const CompletionTally& tally) {
  if (!is_counted(qp)) return;
  orrery_qp_counters& to = *qp.counters;
  if (tally.sends != 0) add_shared(&to.send_completions, tally.sends);
  if (tally.receives != 0) add_shared(&to.recv_completions, tally.receives);
  if (tally.rx_bytes != 0) add_shared(&qp.flow->rx_bytes, tally.rx_bytes);
  if (tally.errors != 0) add_shared(&to.completion_errors, tally.errors);
  if (__atomic_load_n(&qp.spilled, __ATOMIC_RELAXED) != 0) [[unlikely]]
    collect_spill_if_free(qp);
}

}  // namespace orrery::preload
