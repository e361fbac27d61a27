// What a run tells, and records, while it goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "tools/sim/model/types.h"

namespace orrery::sim {

struct Pulse {
  Time now = 0;
  uint64_t events = 0;
  uint64_t delivered_bytes = 0;  // payload
};
struct Watch {
  std::function<void(const Pulse&)> on_pulse;  // on the thread that called the engine; empty: never
  std::chrono::nanoseconds every = std::chrono::milliseconds(250);
};

// Asks the clock when it is time for a pulse. Engines call it between batches of events, never within.
class PulseClock {
 public:
  explicit PulseClock(const Watch& watch) : watch_(watch), next_(std::chrono::steady_clock::now() + watch.every) {}

  bool watched() const { return static_cast<bool>(watch_.on_pulse); }
  template <typename MakePulse>
  void tick(MakePulse make) {
    if (!watched() || std::chrono::steady_clock::now() < next_) return;
    watch_.on_pulse(make());
    next_ = std::chrono::steady_clock::now() + watch_.every;
  }

 private:
  const Watch& watch_;
  std::chrono::steady_clock::time_point next_;
};

// RunResult::waveforms: what links carry, in slices of time that double when there are too many. Bounded memory, also
// when nobody knows how long the run will be.
struct Recording {
  Time slice = 0;              // to begin with; 0: nothing is recorded
  uint32_t most_slices = 256;  // even
};

}  // namespace orrery::sim
