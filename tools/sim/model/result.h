// What an engine says of a run. Engines that have no packets leave the packet counters 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/sim/model/types.h"

namespace orrery::sim {

struct Totals {
  uint64_t events = 0;
  uint64_t hops = 0;  // packets that have left a link
  uint64_t data_hops = 0;
  uint64_t drops = 0;
  uint64_t marks = 0;
  uint64_t pauses = 0;
  uint64_t cnps = 0;
  uint64_t retransmitted = 0;  // data packets sent again
  uint64_t path_changes = 0;   // from one packet of a queue pair to the next
  uint64_t delivered_messages = 0;
  uint64_t delivered_bytes = 0;  // payload

  Totals& operator+=(const Totals& other);
};

struct LinkTotals {
  uint64_t sent_bytes = 0;
  uint64_t max_queued_bytes = 0;
  uint64_t drops = 0;
  uint64_t marks = 0;
  Time paused_time = 0;
};

// What a link carried, in equal slices of time from 0 on.
struct Waveform {
  Time slice = 0;
  std::vector<uint64_t> bytes;
};

struct RunResult {
  Totals totals;
  Time end = 0;                                 // of the last delivery
  std::vector<Time> released_at, delivered_at;  // by message; kNever: did not happen
  std::vector<Time> step_done_at;               // by step; kNever
  std::vector<LinkTotals> links;                // by fabric::LinkId
  std::vector<Waveform> waveforms;              // by fabric::LinkId where asked for, else empty
  size_t state_bytes = 0;                       // what the engine's state took
};

}  // namespace orrery::sim
