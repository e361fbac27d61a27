// Where the threads of a run meet between two windows. Each says when its next event falls and learns the earliest of
// all; what a thread wrote before it came is seen by all that leave. Values of two rounds are kept, so that one meeting
// a window is enough: nobody comes twice before everybody has left once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tools/sim/model/watch.h"

namespace orrery::sim {

class Meeting {
 public:
  explicit Meeting(uint32_t count)
      : seats_(count), patience_(std::thread::hardware_concurrency() >= count ? kPatience : 0) {}

  // The earliest `next` of all.
  Time meet(uint32_t self, Time next, const Pulse& pulse) {
    Seat& seat = seats_[self];
    const uint32_t round = seat.round.load(std::memory_order_relaxed) + 1;
    seat.said[round % 2] = {next, pulse};
    seat.round.store(round, std::memory_order_release);
    seat.round.notify_all();
    for (Seat& other : seats_) {
      wait_for(other, round);
      next = std::min(next, other.said[round % 2].next);
    }
    return next;
  }

  // What all have done until the last meeting. By the thread `self`, before it meets again.
  Pulse pulse(uint32_t self, Time now) const {
    Pulse sum{.now = now};
    const uint32_t round = seats_[self].round.load(std::memory_order_relaxed);
    for (const Seat& seat : seats_) {
      sum.events += seat.said[round % 2].pulse.events;
      sum.delivered_bytes += seat.said[round % 2].pulse.delivered_bytes;
    }
    return sum;
  }

 private:
  // Looks at a seat before the thread lies down, some 50 us: waking it takes as long as a short window.
  static constexpr int kPatience = 1000;

  struct Said {
    Time next = 0;
    Pulse pulse;
  };
  struct alignas(128) Seat {
    std::atomic<uint32_t> round{0};
    Said said[2];
  };

  void wait_for(Seat& seat, uint32_t round) const {
    // Nobody is more than one round ahead.
    for (int i = 0; i < patience_; ++i) {
      if (seat.round.load(std::memory_order_acquire) - round <= 1) return;
      relax();
    }
    for (uint32_t seen; (seen = seat.round.load(std::memory_order_acquire)) - round > 1;) seat.round.wait(seen);
  }
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }

  std::vector<Seat> seats_;
  const int patience_;
};

}  // namespace orrery::sim
