// A lock for the control path of verbs (opening, making, destroying): short, rare, never taken by a signal handler or
// on a data path. Waiting for it gives way to threads of any priority.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace orrery::preload {

class ControlLock {
 public:
  bool try_lock() {
    const auto self = static_cast<uint32_t>(getpid());
    uint32_t holder = __atomic_load_n(&holder_, __ATOMIC_RELAXED);
    if (holder == self) return false;
    // Another process's number: a thread of the parent held it when this process was forked off.
    return __atomic_compare_exchange_n(&holder_, &holder, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
  }
  void lock() {
    for (uint32_t tries = 0; !try_lock(); ++tries) {
      const timespec pause{0, 50'000};
      if (tries < 100)
        sched_yield();
      else
        syscall(SYS_nanosleep, &pause, nullptr);  // raw: no point of cancellation
    }
  }
  void unlock() { __atomic_store_n(&holder_, 0u, __ATOMIC_RELEASE); }

  class Guard {
   public:
    explicit Guard(ControlLock& lock) : lock_(lock) { lock_.lock(); }
    ~Guard() { lock_.unlock(); }

   private:
    ControlLock& lock_;
  };

 private:
  uint32_t holder_ = 0;
};

}  // namespace orrery::preload
