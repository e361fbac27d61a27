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
  uint64_t pauses = 0;  // times that the far end stopped it
  Time paused_time = 0;
};

struct QpTotals {
  uint64_t retransmitted = 0;  // data packets sent again
  uint64_t path_changes = 0;
};

// What a link carried, in equal slices of time from 0 on.
struct Waveform {
  Time slice = 0;
  std::vector<uint64_t> bytes;
  std::vector<uint64_t> queued_bytes;  // the deepest sample of each slice; empty where there are no queues
};

// For how long the queues of some ports were how deep, from samples: classes of an eighth of a power of two.
struct QueueTimes {
  static constexpr size_t kClasses = 1 + 8 * 48;
  std::vector<uint64_t> port_ns;  // by class, of all ports together; empty: not sampled

  static size_t class_of(uint64_t bytes);
  static uint64_t most_in(size_t depth_class);  // bytes
  void add(uint64_t bytes, uint64_t ns);
  QueueTimes& operator+=(const QueueTimes& other);
};

struct RunResult {
  Totals totals;
  Time end = 0;                                 // of the last delivery
  std::vector<Time> released_at, delivered_at;  // by message; kNever: did not happen
  std::vector<Time> step_done_at;               // by step; kNever
  std::vector<LinkTotals> links;                // by fabric::LinkId
  std::vector<QpTotals> qps;                    // by queue pair; empty of engines that do not count by queue pair
  std::vector<Waveform> waveforms;              // by fabric::LinkId if recorded, else empty
  QueueTimes core_queues, edge_queues;          // of switch ports towards switches, towards hosts; if recorded
  size_t state_bytes = 0;                       // what the engine's state took
};

}  // namespace orrery::sim
