// The hooks in the contexts' tables: ibv_post_send, ibv_post_recv, ibv_poll_cq. While nobody listens
// they cost a load and a jump; a post that is counted costs one reading of the processor's clock, and one locked
// instruction if threads share its queue pair.
#include "agent/preload/process.h"
#include "agent/preload/qp_count.h"
#include "agent/preload/qp_timing.h"
#include "agent/preload/verbs_context.h"
#include "agent/preload/verbs_tick.h"

namespace orrery::preload {

__attribute__((noinline)) uint64_t tick_slow_and_read() {
  calibrate_clock();
  tick_slow(now_ns());
  return fast_now_ns();
}

namespace {

using PostSend = int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
using PostRecv = int (*)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);

__attribute__((noinline)) int post_unusual(Qp& known, PostSend post, ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr,
                                           uint64_t now) {
  const SendTally tally = tally_chain(known, wr);
  const int result = post(qp, wr, bad_wr);
  if (!is_counted(known)) return result;
  if (result == 0)
    commit_tally(known, tally, now);
  else
    count_refused(known, wr, bad_wr != nullptr ? *bad_wr : wr, now);
  return result;
}

inline int post_and_count(Qp& known, PostSend post, ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  const uint64_t now = hot_now_ns();
  const bool burst = begins_burst(known, now);
  if (burst) [[unlikely]]
    refresh_qp_plan(known, now);
  const uint8_t timed = __atomic_load_n(&known.timed, __ATOMIC_ACQUIRE);
  if (timed != kTimedNever && (burst || timed == kTimedAlways)) [[unlikely]]
    return timed_post_send(known, wr, bad_wr, burst);
  UsualPost usual;
  if (wr == nullptr || !is_usual(known, *wr, &usual)) return post_unusual(known, post, qp, wr, bad_wr, now);
  const int result = post(qp, wr, bad_wr);
  if (result != 0) [[unlikely]] {
    count_usual_refused(known, now);
    return result;
  }
  count_usual(known, usual, now);
  return 0;
}

// What is held goes first, whoever counts it.
__attribute__((noinline)) int post_send_uncounted(PostSend post, ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (arm() == kOff) return post(qp, wr, bad_wr);
  tick_sometimes(thread_state.calls_to_tick);
  Qp* known = __atomic_load_n(&held_qps, __ATOMIC_ACQUIRE) != 0 ? find_qp(qp) : nullptr;
  if (known != nullptr && __atomic_load_n(&known->timed, __ATOMIC_ACQUIRE) == kTimedAlways)
    return timed_post_send(*known, wr, bad_wr, false);
  return post(qp, wr, bad_wr);
}

template <size_t kProvider>
int hooked_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  const PostSend post = providers[kProvider].post_send;
  if (!attached()) [[unlikely]]
    return post_send_uncounted(post, qp, wr, bad_wr);
  Qp* known = find_qp(qp);
  if (known == nullptr || __atomic_load_n(&known->live_generation, __ATOMIC_ACQUIRE) != generation()) [[unlikely]]
    return post_send_uncounted(post, qp, wr, bad_wr);
  return post_and_count(*known, post, qp, wr, bad_wr);
}

// Receives may be posted before the queue pair leads anywhere.
__attribute__((noinline)) void count_early_receives(Qp& known, uint64_t count) {
  add_shared(&known.early_recvs, count);
  if (is_counted(known))  // it has become ready meanwhile
    add_shared(&known.counters->posted_recvs, __atomic_exchange_n(&known.early_recvs, uint64_t{0}, __ATOMIC_RELAXED));
}

uint64_t requests_before(const ibv_recv_wr* wr, const ibv_recv_wr* end) {
  uint64_t count = 0;
  for (; wr != nullptr && wr != end; wr = wr->next) ++count;
  return count;
}

void count_receives(Qp& known, uint64_t count) {
  if (count == 0) return;
  if (!known.has_received) __atomic_store_n(&known.has_received, true, __ATOMIC_RELAXED);
  if (is_counted(known)) [[likely]]
    add_shared(&known.counters->posted_recvs, count);
  else if (!known.ready)
    count_early_receives(known, count);
}

// The requests are looked at before the post, see tally_chain().
int post_and_count_receives(PostRecv post, ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Qp* known = find_qp(qp);
  if (known == nullptr) return post(qp, wr, bad_wr);
  const uint64_t count = requests_before(wr, nullptr);
  const int result = post(qp, wr, bad_wr);
  count_receives(*known, result == 0 ? count : requests_before(wr, bad_wr != nullptr ? *bad_wr : wr));
  return result;
}

template <size_t kProvider>
int hooked_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  const PostRecv post = providers[kProvider].post_recv;
  return arm() == kOff ? post(qp, wr, bad_wr) : post_and_count_receives(post, qp, wr, bad_wr);
}

// A failed completion says nothing but which queue pair and which request it was.
void tally_completion(const ibv_wc& completion, CompletionTally* tally) {
  if (completion.status != IBV_WC_SUCCESS) {
    ++tally->errors;
  } else if ((completion.opcode & IBV_WC_RECV) != 0) {
    ++tally->receives;
    tally->rx_bytes += completion.byte_len;
  } else {
    ++tally->sends;
  }
}

// Completions of one queue pair come in runs.
__attribute__((noinline)) void count_polled(const ibv_context* context, const ibv_wc* completions, int count) {
  for (int i = 0; i < count;) {
    const uint32_t qpn = completions[i].qp_num;
    CompletionTally tally{};
    for (; i < count && completions[i].qp_num == qpn; ++i) tally_completion(completions[i], &tally);
    if (Qp* known = find_qp(context, qpn)) count_completions(*known, tally);
  }
  tick_sometimes(thread_state.calls_to_tick);
}

__attribute__((noinline)) void before_poll_while_held() {
  if (arm() != kOff) release_due_sends();
}

template <size_t kProvider>
int hooked_poll_cq(ibv_cq* cq, int room, ibv_wc* completions) {
  if (__atomic_load_n(&held_qps, __ATOMIC_RELAXED) != 0) [[unlikely]]
    before_poll_while_held();
  const int count = providers[kProvider].poll_cq(cq, room, completions);
  if (count > 0 && attached()) count_polled(cq->context, completions, count);
  return count;
}

#define ORRERY_HOOKS_OF(provider) \
  { hooked_post_send<provider>, hooked_post_recv<provider>, hooked_poll_cq<provider> }

}  // namespace

const DataHooks data_hooks[kMaxProviders] = {ORRERY_HOOKS_OF(0), ORRERY_HOOKS_OF(1), ORRERY_HOOKS_OF(2),
                                             ORRERY_HOOKS_OF(3), ORRERY_HOOKS_OF(4), ORRERY_HOOKS_OF(5),
                                             ORRERY_HOOKS_OF(6), ORRERY_HOOKS_OF(7)};

}  // namespace orrery::preload
