// The fabric as the packet engine reads it: dense arrays by link and host index, made once from the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/fabric/graph.h"
#include "tools/sim/packet/config.h"

namespace orrery::sim {

// One direction of a cable: the egress port that feeds it and the way to its end.
struct Wire {
  uint64_t scale = 0;  // picoseconds per byte, times 2^16
  uint32_t reverse = kNone;
  uint32_t from_node = kNone;
  uint32_t to_node = kNone;
  uint32_t to_host = kNone;    // kNone: ends at a switch
  uint32_t from_host = kNone;  // kNone: starts at a switch
  uint64_t limit_bytes = 0;    // of the egress queue

  Time time_of(uint64_t bytes) const { return (bytes * scale) >> 16; }
};

struct Wires {
  std::vector<Wire> wires;          // by fabric::LinkId
  std::vector<uint32_t> uplink_of;  // by host (index of the NIC in Graph::nics()): its egress link
  uint32_t node_count = 0;
};

Wires make_wires(const fabric::Graph& graph, const PacketConfig& config);

}  // namespace orrery::sim
