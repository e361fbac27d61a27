// One send queue whose requests may be held back: order, room, and what happens when the provider refuses late. Knows
// neither plan nor clock: the caller says until when.
//
// Everything here happens under a spin lock per queue that is held for as long as the provider takes to accept what is
// due. Nothing allocates or reads a clock; nothing sleeps, but a thread that finds the lock's holder preempted for
// long.
#pragma once

#include <stdint.h>

#include "agent/preload/send_fifo.h"

namespace orrery::preload {

// What a queue has just posted.
struct Posts {
  const ibv_send_wr* first;    // not to be looked at when held and refused are 0: the program may have freed it
  const ibv_send_wr* refused;  // the first that the provider refused; null: none
  uint32_t held;               // how many had been held: 0 or all
  uint32_t early;              // of the held, how many before their time
  uint64_t held_ns;            // how long the queue had been holding, when this emptied it; else 0
};

// Where a queue posts to. `owner` is handed to the functions.
struct SendTarget {
  void* owner;
  ibv_qp* qp;
  int (*post_send)(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
  // Before the program's own chain, of which nothing is held, is posted.
  void (*look_at)(void* owner, const ibv_send_wr* chain);
  void (*posted)(void* owner, const Posts& posts, uint64_t now);
  // Puts the queue pair into the error state. False when that failed.
  bool (*put_into_error)(void* owner);
  uint32_t max_wr;  // of the queue pair, as the provider granted it
  uint32_t max_sge;
  uint32_t max_inline;
};

// Until when the requests of one call are held.
struct SendSchedule {
  bool hold;            // false: nothing is held, and what is goes at once
  uint64_t release_ns;  // no earlier than this; 0: at once
  uint64_t pace_bps;    // no faster than this; 0: no limit
  uint64_t budget_ns;   // how long this queue may still be held in this burst
};

class Deferral {
 public:
  class Guard {
   public:
    explicit Guard(Deferral& queue) : queue_(queue) { queue_.lock(); }
    ~Guard() { queue_.unlock(); }

   private:
    Deferral& queue_;
  };
  void lock();
  bool try_lock();
  void unlock();

  // When the first held request is due, 0 when nothing is held. Without the lock, for pollers.
  uint64_t first_due_ns() const { return __atomic_load_n(&first_due_ns_, __ATOMIC_ACQUIRE); }

  // The rest needs the lock.

  // post_send for the program's chain: posts it, or copies it and answers success. The answer and *bad_wr are what the
  // provider gives or would give. Requests never overtake each other.
  int post(const SendTarget& target, ibv_send_wr* wr, ibv_send_wr** bad_wr, const SendSchedule& schedule, uint64_t now);

  // Posts what is due by `until`, 0 on success; what the provider has no room for stays, and its answer is returned.
  int flush(const SendTarget& target, uint64_t until, uint64_t now);
  int flush_all(const SendTarget& target, uint64_t now) { return flush(target, UINT64_MAX, now); }
  void drop_all();

  bool empty() const { return fifo_.empty(); }
  uint32_t count() const { return fifo_.count(); }
  // Since when the queue has been holding, 0 when it does not.
  uint64_t holding_since_ns() const { return holding_since_ns_; }
  // A held request was refused for good: the queue pair is in the error state, and nothing is held any more.
  bool broken() const { return broken_; }
  void start_anew();

 private:
  int post_now(const SendTarget& target, ibv_send_wr* wr, ibv_send_wr** bad_wr, uint64_t now);
  bool can_take(const SendTarget& target, const ibv_send_wr& wr) const;
  uint64_t due_of(const ibv_send_wr& wr, const SendSchedule& schedule, uint64_t deadline, uint64_t now);
  int post_after_held(const SendTarget& target, ibv_send_wr* wr, ibv_send_wr** bad_wr, uint64_t now);
  void take(const SendTarget& target, ibv_send_wr* first, uint32_t count, uint64_t now);
  void give_up_first(const SendTarget& target, ibv_send_wr* first);
  void publish_due();

  uint32_t lock_ = 0;
  bool broken_ = false;
  bool first_is_replaced_ = false;
  uint64_t first_due_ns_ = 0;
  uint64_t holding_since_ns_ = 0;
  uint64_t line_free_ns_ = 0;  // when a flow that kept to its pace could send the next byte
  SendFifo fifo_;
};

}  // namespace orrery::preload
