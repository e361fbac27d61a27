#include "agent/preload/qp_timing.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/preload/deferral.h"
#include "agent/preload/plan_use.h"
#include "agent/preload/port_choice.h"
#include "agent/preload/qp_count.h"
#include "agent/preload/release_thread.h"
#include "agent/preload/repath.h"

// In libc.so.6 of every glibc under this version.
#if defined(__x86_64__)
__asm__(".symver pthread_setcancelstate, pthread_setcancelstate@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_setcancelstate, pthread_setcancelstate@GLIBC_2.17");
#endif

namespace orrery::preload {

constinit uint32_t held_qps = 0;

// What a queue pair needs whose sends the plan times. Belongs to an entry of the table of queue pairs for good, with
// all of its successive queue pairs.
struct HeldSends {
  Deferral queue;  // its lock guards the rest

  ReleaseHold release;
  uint64_t budget_ns;  // how long this burst may still be held
  bool fresh_burst;    // a burst has begun, and nothing of it that could be held has been posted
  bool timed;          // the plan has something to say about this queue pair's sends

  const void* thread;  // that posts
  uint32_t posts_by_thread;

  SendTally posting;  // what the program's own chain adds that is being posted

  uint16_t wanted_port;  // 0: it need not move
};

namespace {

constexpr uint32_t kMaxHeld = 1024;
constexpr uint32_t kWords = kMaxHeld / 64;
constexpr uint32_t kPostsBeforeMove = 16;
constexpr uint16_t kFirstRocePort = 0xc000;
constexpr size_t kMostKib = 1u << 20;
constexpr uint64_t kBusyRetryNs = 20'000;
constexpr char kSingleThreaded[] = "_SINGLE_THREADED";  // MLX4, MLX5, BNXT, XSC

HeldSends pool[kMaxHeld];
Qp* owners[kMaxHeld];
uint32_t pool_used = 0;
uint64_t holding[kWords];    // a bit per pool entry
bool providers_lock = true;  // false: the program promised its provider not to use threads
bool control_too = false;
bool switched_off = false;

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }

 private:
  const int saved_;
};

// This thread is at work in a queue, under its lock. Providers write to their device, where a cancelled thread would
// end and leave the lock behind: it ends later.
class AtWork {
 public:
  AtWork() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_); }
  ~AtWork() { pthread_setcancelstate(cancel_, nullptr); }

 private:
  int cancel_ = PTHREAD_CANCEL_ENABLE;  // glibc before 2.34 says nothing in a program without threads
};

class QueueGuard {
 public:
  explicit QueueGuard(Deferral& queue) : lock_(queue) {}

 private:
  const AtWork at_work_;
  const Deferral::Guard lock_;
};

uint32_t index_of(const HeldSends& held) {
  return static_cast<uint32_t>(&held - pool);
}

// Two threads that want one at once take one each; the one that is late leaves its own unused.
HeldSends* held_of(Qp& qp) {
  HeldSends* held = __atomic_load_n(&qp.held, __ATOMIC_ACQUIRE);
  if (held != nullptr || __atomic_load_n(&pool_used, __ATOMIC_RELAXED) >= kMaxHeld) return held;
  const uint32_t index = __atomic_fetch_add(&pool_used, 1u, __ATOMIC_RELAXED);
  if (index >= kMaxHeld) return nullptr;
  owners[index] = &qp;
  if (__atomic_compare_exchange_n(&qp.held, &held, &pool[index], false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return &pool[index];
  return held;
}

// Which posts must come here. Inside a burst that nothing holds, paces or moves, all others go the short way.
Timed timed_posts(const Qp& qp, const HeldSends& held) {
  if (!held.queue.empty() || held.wanted_port != 0) return kTimedAlways;
  if (!held.timed) return kTimedNever;
  return held.fresh_burst || qp.pace_bps != 0 ? kTimedAlways : kTimedBursts;
}

// Keeps what pollers and posters look at in step with the queue. Under the queue's lock.
void note_holding(Qp& qp, HeldSends& held) {
  __atomic_store_n(&qp.timed, static_cast<uint8_t>(timed_posts(qp, held)), __ATOMIC_RELEASE);
  const uint32_t index = index_of(held);
  const uint64_t bit = uint64_t{1} << (index % 64);
  uint64_t& word = holding[index / 64];
  const bool was = (__atomic_load_n(&word, __ATOMIC_RELAXED) & bit) != 0;
  const bool is = !held.queue.empty();
  if (!is) held.release.since_ns = 0;
  if (is == was) return;
  if (is) {
    __atomic_fetch_or(&word, bit, __ATOMIC_RELEASE);
    __atomic_fetch_add(&held_qps, 1u, __ATOMIC_SEQ_CST);
  } else {
    __atomic_fetch_and(&word, ~bit, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&held_qps, 1u, __ATOMIC_RELEASE);
  }
}

void look_at(void* owner, const ibv_send_wr* chain) {
  Qp& qp = *static_cast<Qp*>(owner);
  qp.held->posting = is_counted(qp) ? tally_chain(qp, chain) : SendTally{};
}

void count_posts(void* owner, const Posts& posts, uint64_t now) {
  Qp& qp = *static_cast<Qp*>(owner);
  HeldSends& held = *qp.held;
  held.budget_ns -= posts.held_ns < held.budget_ns ? posts.held_ns : held.budget_ns;
  if (!is_counted(qp)) return;
  if (posts.refused != nullptr) return count_refused(qp, posts.first, posts.refused, now);
  if (posts.held == 0) return commit_tally(qp, held.posting, now);
  commit_tally(qp, tally_chain(qp, posts.first), now);
  add_shared(&qp.counters->deferred, posts.held);
  add_shared(&qp.counters->drained_early, posts.early);
  add_shared(&qp.flow->held_sends, posts.held);
  add_shared(&qp.flow->held_ns, posts.held_ns);
}

bool put_into_error(void* owner) {
  Qp& qp = *static_cast<Qp*>(owner);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  say(kLogError,
      "a held send was refused by the device, its queue pair is put into the error state: ", qp.context->device->name);
  return qp.modify != nullptr && qp.modify(qp.qp, &attributes, IBV_QP_STATE) == 0;
}

// How much the queue pair has room for before its provider would refuse. Where requests without completion are posted
// only the provider knows, and its depth is what bounds us.
uint32_t room_of(const Qp& qp) {
  if (qp.unsignaled_sends != 0 || !qp.counted_whole || !is_counted(qp)) return qp.max_send_wr;
  const uint64_t posted = shm::load_relaxed(&qp.counters->posted_sends);
  const uint64_t completed = shm::load_relaxed(&qp.counters->send_completions);
  const uint64_t outstanding = posted > completed ? posted - completed : 0;
  return outstanding < qp.max_send_wr ? qp.max_send_wr - static_cast<uint32_t>(outstanding) : 0;
}

SendTarget target_of(Qp& qp) {
  return {&qp,         qp.qp,           qp.ops->post_send, look_at, count_posts, put_into_error,
          room_of(qp), qp.max_send_sge, qp.max_inline};
}

// For whoever has come by a list of the queues that hold, under the queue's lock: by now this one may hold nothing, and
// its queue pair may be gone, or another one in the making.
void flush_held(Qp& qp, HeldSends& held, uint64_t until, uint64_t now) {
  if (held.queue.empty()) return;
  held.queue.flush(target_of(qp), until, now);
  note_holding(qp, held);
}

// `modify`: its program is seen to change states, so it will be seen to destroy it, too.
bool can_hold(const Qp& qp) {
  return qp.can_defer && !qp.extended && !qp.loopback && qp.modify != nullptr && !switched_off &&
         __atomic_load_n(&providers_lock, __ATOMIC_RELAXED) && !release_thread_is_refused();
}

bool plan_is_valid(uint64_t now) {
  return attached() && attachment.plan.lease_valid(now);
}

// Whether the burst that begins with this chain is one to hold: it carries data away from here, and is not what the
// other side waits for before it may send.
bool carries_data(const Qp& qp, const ibv_send_wr* wr) {
  const bool alone = wr != nullptr && wr->next == nullptr;
  for (; wr != nullptr; wr = wr->next) {
    if (wr->opcode == IBV_WR_RDMA_READ || !SendFifo::can_hold(*wr)) continue;
    if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) continue;
    const uint64_t length = length_of(*wr);
    const bool control = alone && wr->opcode == IBV_WR_RDMA_WRITE && may_be_control(qp, length, wr->send_flags);
    if (length != 0 && (!control || control_too)) return true;
  }
  return false;
}

void note_poster(HeldSends& held) {
  if (held.thread != &thread_state) {
    held.thread = &thread_state;
    held.posts_by_thread = 0;
  }
  ++held.posts_by_thread;
}

SendSchedule begin_burst(Qp& qp, HeldSends& held, uint64_t now) {
  held.fresh_burst = false;
  held.budget_ns = attachment.hold_cap_ns;
  const uint64_t start = release_waits_for(qp.plan_comm_id, &qp.plan_comm, qp.release_offset_ns, held.release, now);
  const uint64_t release = start != 0 ? hold_for(held.release, start, qp.release_offset_ns, now) : 0;
  return {true, release, qp.pace_bps, held.budget_ns};
}

SendSchedule schedule_of(Qp& qp, HeldSends& held, const ibv_send_wr* wr, uint64_t now) {
  if (!plan_is_valid(now) || !can_hold(qp)) return {};
  if (!held.queue.empty()) return {true, 0, qp.pace_bps, held.budget_ns};
  if (!carries_data(qp, wr)) return {};
  if (held.fresh_burst) return begin_burst(qp, held, now);
  return {qp.pace_bps != 0, 0, qp.pace_bps, held.budget_ns};
}

void move_if_wanted(Qp& qp, HeldSends& held) {
  if (held.wanted_port == 0 || !held.queue.empty() || held.posts_by_thread < kPostsBeforeMove) return;
  if (!qp.can_move || held.wanted_port == qp.udp_sport) {
    held.wanted_port = 0;
    return;
  }
  if (move_qp(qp, held.wanted_port) != Moved::kNotNow) held.wanted_port = 0;
}

template <typename Action>
void for_each_holding(Action action) {
  for (uint32_t word = 0; word < kWords; ++word)
    for (uint64_t bits = __atomic_load_n(&holding[word], __ATOMIC_ACQUIRE); bits != 0; bits &= bits - 1) {
      const auto index = word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
      action(*owners[index], pool[index]);
    }
}

// The port that the plan wants and this one is not, 0 when all is well or nothing can be done about it.
uint16_t port_to_move_to(const Qp& qp, const orrery_plan_entry& entry) {
  const bool label_of_program = !qp.label_ours && qp.flow_label != 0;
  if (!qp.can_move || qp.lag || label_of_program || entry.src_port_first == 0) return 0;
  PortChoice choice(entry, qp.local, qp.remote, (qp.qpn ^ qp.dest_qpn << 8) * 7919u);
  if (choice.takes(qp.udp_sport)) return 0;
  uint16_t port = choice.next();
  while (port != 0 && port < kFirstRocePort) port = choice.next();
  return port;
}

void start_anew(Qp& qp, HeldSends& held) {
  held.queue.start_anew();
  held.release = ReleaseHold{};
  held.fresh_burst = held.timed = false;
  held.thread = nullptr;
  held.wanted_port = 0;
  qp.plan_generation = 0;  // if it lives on, the plan is looked at anew
}

bool is_set(const char* value) {
  return value != nullptr && *value != '\0' && strcmp(value, "0") != 0;
}

}  // namespace

void read_timing_settings() {
  control_too = is_set(getenv("ORRERY_DEFER_CTS"));
  const char* kib = getenv("ORRERY_DEFER_KIB");
  if (kib == nullptr || *kib < '0' || *kib > '9') return;
  size_t value = 0;
  for (; *kib >= '0' && *kib <= '9' && value < kMostKib; ++kib) value = value * 10 + static_cast<size_t>(*kib - '0');
  switched_off = value == 0;
  limit_send_fifos(value * 1024);
}

bool can_be_held(const Qp& qp, const ibv_qp& made) {
  return (made.qp_type == IBV_QPT_RC || made.qp_type == IBV_QPT_UC) && qp.max_send_wr != 0 && qp.max_send_sge != 0;
}

void note_thread_domain() {
  __atomic_store_n(&providers_lock, false, __ATOMIC_RELAXED);
  if (__atomic_load_n(&held_qps, __ATOMIC_ACQUIRE) != 0) drain_all_held_sends();
}

void look_for_single_threaded_providers() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* value = strchr(*entry, '=');
    const size_t length = value != nullptr ? static_cast<size_t>(value - *entry) : 0;
    constexpr size_t kSuffix = sizeof(kSingleThreaded) - 1;
    if (length > kSuffix && memcmp(value - kSuffix, kSingleThreaded, kSuffix) == 0 && is_set(value + 1))
      return note_thread_domain();
  }
}

static int post_in_time(Qp& qp, HeldSends& held, ibv_send_wr* wr, ibv_send_wr** bad_wr, bool burst) {
  const Deferral::Guard guard(held.queue);
  const uint64_t now = now_ns();
  note_poster(held);
  if (burst && held.queue.empty()) {
    held.fresh_burst = true;
    if (plan_is_valid(now)) move_if_wanted(qp, held);
  }
  const SendSchedule schedule = schedule_of(qp, held, wr, now);
  const int answer = held.queue.post(target_of(qp), wr, bad_wr, schedule, now);
  note_holding(qp, held);
  return answer;
}

int timed_post_send(Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad_wr, bool burst) {
  HeldSends* held = __atomic_load_n(&qp.held, __ATOMIC_ACQUIRE);
  if (held == nullptr) return qp.ops->post_send(qp.qp, wr, bad_wr);
  ibv_send_wr* own_bad = nullptr;
  const int saved = errno;
  const AtWork at_work;
  const int answer = post_in_time(qp, *held, wr, bad_wr != nullptr ? bad_wr : &own_bad, burst);
  if (held->queue.first_due_ns() != 0) rely_on_release_thread();
  if (answer == 0) errno = saved;
  return answer;
}

uint64_t release_due_sends() {
  const KeepErrno keep;
  const uint64_t now = now_ns();
  const bool valid = plan_is_valid(now);
  uint64_t next = UINT64_MAX;
  const auto look_again_at = [&](uint64_t time) { next = time < next ? time : next; };
  for_each_holding([&](Qp& qp, HeldSends& held) {
    uint64_t due = held.queue.first_due_ns();
    if (due == 0 || (valid && due > now)) return look_again_at(due != 0 ? due : UINT64_MAX);
    const AtWork at_work;
    if (!held.queue.try_lock()) return look_again_at(now + kBusyRetryNs);
    flush_held(qp, held, valid ? now : UINT64_MAX, now);
    due = held.queue.first_due_ns();
    held.queue.unlock();
    if (due > now) look_again_at(due);
  });
  return next;
}

void drain_all_held_sends() {
  const KeepErrno keep;
  const uint64_t now = now_ns();
  for_each_holding([&](Qp& qp, HeldSends& held) {
    const QueueGuard guard(held.queue);
    flush_held(qp, held, UINT64_MAX, now);
  });
}

bool drain_held_sends(Qp& qp, bool for_good) {
  HeldSends* held = __atomic_load_n(&qp.held, __ATOMIC_ACQUIRE);
  if (held == nullptr) return true;
  const KeepErrno keep;
  const QueueGuard guard(held->queue);
  const bool all = held->queue.flush_all(target_of(qp), now_ns()) == 0;
  if (for_good) start_anew(qp, *held);
  note_holding(qp, *held);
  return all;
}

void forget_held_sends(Qp& qp) {
  HeldSends* held = __atomic_load_n(&qp.held, __ATOMIC_ACQUIRE);
  if (held == nullptr) return;
  const QueueGuard guard(held->queue);
  start_anew(qp, *held);
  note_holding(qp, *held);
}

void timing_plan_changed(Qp& qp, const shm::PlanAnswer* answer) {
  const bool times = (qp.release_offset_ns != 0 || qp.pace_bps != 0) && can_hold(qp);
  const uint16_t port = answer != nullptr ? port_to_move_to(qp, answer->entry) : uint16_t{0};
  HeldSends* held = times || port != 0 ? held_of(qp) : qp.held;
  if (held == nullptr) return;
  const KeepErrno keep;
  const QueueGuard guard(held->queue);
  if (port != held->wanted_port) held->posts_by_thread = 0;
  held->wanted_port = port;
  held->timed = times;
  if (!times) held->queue.flush_all(target_of(qp), now_ns());
  note_holding(qp, *held);
}

void forget_held_sends_of_parent() {
  for (uint32_t i = 0; i < kMaxHeld && i < pool_used; ++i) pool[i] = HeldSends{};
  memset(holding, 0, sizeof(holding));
  held_qps = 0;
  forget_release_thread_of_parent();
  forget_send_fifos_of_parent();
}

}  // namespace orrery::preload
