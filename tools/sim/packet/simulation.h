// Runs a program over a fabric, packet by packet.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/fabric/graph.h"
#include "tools/sim/packet/domain.h"

namespace orrery::sim {

struct PacketResult {
  DomainCounters totals;
  Time end = 0;                                 // of the last delivery
  std::vector<Time> released_at, delivered_at;  // by message; kNever: did not happen
  std::vector<Time> step_done_at;               // by step
  struct LinkTotals {
    uint64_t sent_bytes, max_queued_bytes, drops, marks;
    Time paused_time;
  };
  std::vector<LinkTotals> links;  // by fabric::LinkId
  size_t state_bytes = 0;
};

// Same program, fabric and config: the same result to the picosecond, whatever config.threads says.
PacketResult run_packets(const fabric::Graph& graph, const Program& program, const PacketConfig& config);

}  // namespace orrery::sim
