// Flows that last, in the ways in which they meet: what the flow-level engine is held against the packet engine with.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/fluid/simulation.h"

namespace orrery::sim {

struct LongFlows {
  std::string name;
  fabric::Graph graph;
  Program program;
};

// Flows of `bytes` over links of one rate:
//   permutation     32 hosts, each sends to one and receives from one, by hashed paths that collide
//   pairs           64 random pairs of them, which begin within half the time of one flow
//   link of K       K flows whose only common link is one uplink
//   unequal         four of those, of 1 to 4 times the bytes
//   incast of K     K hosts to one
//   parking lot     a flow over three full links, and one other on each
//   ring            four steps of a ring of 16 ranks by hashed paths, `bytes` each
//   2:1             a permutation of 16 hosts on leaves with half as many uplinks
//   all-to-all      8 hosts, everybody to everybody at once
// The random ones are drawn with `seed`.
std::vector<LongFlows> long_flows(uint64_t bytes, uint64_t rate_bps, uint32_t seed);

// The defaults of the packet engine are for 100 Gb/s; at another rate what counts bytes or bit/s is in proportion, so
// that times stay: DCQCN settles as slowly, with fewer packets to simulate where the rate is lower.
PacketConfig config_for(uint64_t rate_bps);

// Runs all on both engines, prints and checks that the means of the time from release to delivery agree within 3 %, and
// that the packet engine lost nothing.
void check_means(const std::vector<LongFlows>& all, const PacketConfig& config, Sharing sharing);

}  // namespace orrery::sim
