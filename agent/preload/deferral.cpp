#include "agent/preload/deferral.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace orrery::preload {
namespace {

constexpr uint32_t kBatch = 64;
constexpr uint32_t kSpins = 2000;  // then the holder has been preempted: let it run,
constexpr uint32_t kYields = 100;
constexpr timespec kPause{0, 50'000};

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A real-time thread yields to its like only; a holder that has less priority runs while it sleeps.
bool yields_to_all() {
  const long policy = syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK;
  return policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

uint64_t bytes_of(const ibv_send_wr& wr) {
  uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  return bytes;
}

// No room now, but there will be: providers free a queue's entries as its completions are polled.
bool is_full(int answer) {
  const int error = answer == -1 ? errno : answer < 0 ? -answer : answer;
  return error == ENOMEM || error == EAGAIN;
}

// How many of the chain the provider took. One that does not say which it refused took none.
uint32_t taken_of(const ibv_send_wr* chain, const ibv_send_wr* bad, uint32_t count) {
  for (uint32_t position = 0; bad != nullptr && position < count; ++position, chain = chain->next)
    if (chain == bad) return position;
  return 0;
}

}  // namespace

bool Deferral::try_lock() {
  return __atomic_exchange_n(&lock_, 1u, __ATOMIC_ACQUIRE) == 0;
}

void Deferral::lock() {
  for (uint32_t spins = 1; !try_lock(); ++spins) {
    while (__atomic_load_n(&lock_, __ATOMIC_RELAXED) != 0) {
      relax();
      if (++spins % kSpins != 0) continue;
      if (spins / kSpins <= kYields && yields_to_all())
        syscall(SYS_sched_yield);
      else
        syscall(SYS_nanosleep, &kPause, nullptr);
    }
  }
}

void Deferral::unlock() {
  __atomic_store_n(&lock_, 0u, __ATOMIC_RELEASE);
}

void Deferral::publish_due() {
  __atomic_store_n(&first_due_ns_, fifo_.empty() ? 0 : fifo_.first_due_ns(), __ATOMIC_RELEASE);
}

bool Deferral::can_take(const SendTarget& target, const ibv_send_wr& wr) const {
  // What the provider would refuse whenever it came is left to the provider, now.
  if (!SendFifo::can_hold(wr) || static_cast<uint32_t>(wr.num_sge) > target.max_sge) return false;
  if ((wr.send_flags & IBV_SEND_INLINE) && bytes_of(wr) > target.max_inline) return false;
  return fifo_.count() < target.max_wr;
}

uint64_t Deferral::due_of(const ibv_send_wr& wr, const SendSchedule& schedule, uint64_t deadline, uint64_t now) {
  if (!schedule.hold || broken_) return now > fifo_.last_due_ns() ? now : fifo_.last_due_ns();
  uint64_t due = schedule.release_ns > now ? schedule.release_ns : now;
  if (schedule.pace_bps != 0) {
    const uint64_t bytes = bytes_of(wr);
    if (bytes != 0 && line_free_ns_ > due) due = line_free_ns_;
    if (due > deadline) due = deadline;
    const auto line_ns = static_cast<uint64_t>(static_cast<unsigned __int128>(bytes) * 8000000000u / schedule.pace_bps);
    if (bytes != 0) line_free_ns_ = due + line_ns;
  }
  if (due > deadline) due = deadline;
  return due > fifo_.last_due_ns() ? due : fifo_.last_due_ns();
}

int Deferral::post_now(const SendTarget& target, ibv_send_wr* wr, ibv_send_wr** bad_wr, uint64_t now) {
  target.look_at(target.owner, wr);
  const int answer = target.post_send(target.qp, wr, bad_wr);
  const int error = errno;
  target.posted(target.owner, Posts{wr, answer != 0 ? *bad_wr : nullptr, 0, 0, 0}, now);
  errno = error;
  return answer;
}

// For what cannot be held: everything before it goes first.
int Deferral::post_after_held(const SendTarget& target, ibv_send_wr* wr, ibv_send_wr** bad_wr, uint64_t now) {
  const int answer = flush_all(target, now);
  if (fifo_.empty()) return post_now(target, wr, bad_wr, now);
  *bad_wr = wr;
  return answer;
}

int Deferral::post(const SendTarget& target, ibv_send_wr* wr, ibv_send_wr** bad_wr, const SendSchedule& schedule,
                   uint64_t now) {
  flush(target, schedule.hold ? now : UINT64_MAX, now);
  const bool hold = schedule.hold && !broken_;
  if (fifo_.empty() && (!hold || (schedule.release_ns <= now && schedule.pace_bps == 0)))
    return post_now(target, wr, bad_wr, now);
  const uint64_t deadline = (holding_since_ns_ != 0 ? holding_since_ns_ : now) + schedule.budget_ns;
  const bool single = fifo_.empty() && wr != nullptr && wr->next == nullptr;
  for (; wr != nullptr; wr = wr->next) {
    if (!can_take(target, *wr)) return post_after_held(target, wr, bad_wr, now);
    const uint64_t due = due_of(*wr, schedule, deadline, now);
    if (single && due <= now) return post_now(target, wr, bad_wr, now);
    if (!fifo_.push(*wr, due)) return post_after_held(target, wr, bad_wr, now);
    if (holding_since_ns_ == 0) holding_since_ns_ = now;
  }
  publish_due();
  flush(target, hold ? now : UINT64_MAX, now);
  return 0;
}

void Deferral::take(const SendTarget& target, ibv_send_wr* first, uint32_t count, uint64_t now) {
  const uint32_t due = fifo_.due_count(now, count);
  ibv_send_wr* last = first;
  for (uint32_t i = 1; i < count; ++i) last = last->next;
  last->next = nullptr;  // chain_due() makes it anew
  const bool emptied = count == fifo_.count();
  const uint64_t held_ns = emptied && now > holding_since_ns_ ? now - holding_since_ns_ : 0;
  target.posted(target.owner, Posts{first, nullptr, count, count - due, held_ns}, now);
  fifo_.pop(count);
  if (emptied) holding_since_ns_ = 0;
  first_is_replaced_ = false;
}

// The program was told that this request had been posted, and must learn that it never will be. In the error state a
// provider takes requests and completes them as flushed, in order, waking whoever waits for completions: so the refused
// one goes there as an empty request of the same id.
void Deferral::give_up_first(const SendTarget& target, ibv_send_wr* first) {
  if (!broken_) target.put_into_error(target.owner);
  broken_ = true;
  if (first_is_replaced_) {  // not even that
    fifo_.pop(1);
    if (fifo_.empty()) holding_since_ns_ = 0;
    first_is_replaced_ = false;
    return;
  }
  first->opcode = IBV_WR_SEND;
  first->send_flags = IBV_SEND_SIGNALED;
  first->num_sge = 0;
  first_is_replaced_ = true;
}

int Deferral::flush(const SendTarget& target, uint64_t until, uint64_t now) {
  int refusal = 0;
  while (!fifo_.empty()) {
    uint32_t count = 0;
    ibv_send_wr* chain = fifo_.chain_due(broken_ ? UINT64_MAX : until, kBatch, &count);
    if (chain == nullptr) break;
    ibv_send_wr* bad = nullptr;
    const int answer = target.post_send(target.qp, chain, &bad);
    const bool full = answer != 0 && is_full(answer);
    const uint32_t accepted = answer == 0 ? count : taken_of(chain, bad, count);
    ibv_send_wr* refused = answer == 0 ? nullptr : accepted == 0 ? chain : bad;
    if (accepted != 0) take(target, chain, accepted, now);
    if (full) {
      refusal = answer;
      break;
    }
    if (refused != nullptr) give_up_first(target, refused);
  }
  publish_due();
  return refusal;
}

void Deferral::drop_all() {
  fifo_.clear();
  holding_since_ns_ = 0;
  first_is_replaced_ = false;
  publish_due();
}

void Deferral::start_anew() {
  drop_all();
  broken_ = false;
  line_free_ns_ = 0;
}

}  // namespace orrery::preload
