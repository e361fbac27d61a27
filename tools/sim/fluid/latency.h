// What the packets of a message take beyond the time that their bytes take on the slowest link.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/fabric/graph.h"
#include "tools/sim/fluid/config.h"

namespace orrery::sim {

class Latency {
 public:
  Latency(const fabric::Graph& graph, const FluidConfig& config);

  uint64_t wire_bytes(uint64_t payload) const { return payload + packets(payload) * config_.header_bytes; }
  // Propagation, and the time in which every link but the slowest holds a packet back: exactly what remains, without
  // other traffic, of the packets' way through store-and-forward (or cut-through) switches when their time on the
  // slowest link, or at their pace, is taken away. A pace so slow that a packet takes longer than that gives 0.
  Time of_message(const PathLinks& path, uint64_t payload, uint64_t pace_bps) const;
  Time of_ack(const PathLinks& back) const;

 private:
  uint64_t packets(uint64_t payload) const {
    return payload == 0 ? 1 : (payload + config_.payload_bytes - 1) / config_.payload_bytes;
  }
  Time time_of(uint32_t link, uint64_t bytes) const { return (bytes * scale_[link]) >> 16; }
  Time fixed(const PathLinks& path) const;

  const FluidConfig& config_;
  std::vector<uint64_t> scale_;  // by link: picoseconds per byte, times 2^16, as the packet engine counts
};

}  // namespace orrery::sim
