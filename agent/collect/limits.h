// Bounds on what the processes of one host can make the agent hold or do. What is over a bound is counted, reported and
// dropped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery::collect {

struct Limits {
  uint32_t processes = 256;
  uint32_t communicators_per_process = 1024;
  uint32_t open_collectives_per_process = 256;  // called, end not seen yet
  uint32_t events_per_drain = 2048;             // of one process; the rest waits in its rings for the next drain
  // Of all processes; one gets at most its equal share, so that none can crowd out the others.
  uint32_t intents_per_window = 8192;
  uint32_t flows_per_window = 8192;
  uint32_t communicators_per_window = 8192;
};

// How long things take to count as over, and how often progress is told. Monotonic nanoseconds.
struct Cadence {
  uint64_t quiet_ns = 20'000'000;      // a collective whose bytes rested this long has ended
  uint64_t progress_ns = 100'000'000;  // flow counters are reported at most this often
  uint64_t heartbeat_ns = 1'000'000'000;
};

}  // namespace orrery::collect
