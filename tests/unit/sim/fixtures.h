// Fabrics and programs that several tests of the simulator use.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/fabric/graph.h"
#include "tools/sim/model/program_builder.h"
#include "tools/sim/packet/simulation.h"

namespace orrery::sim {

inline constexpr uint64_t k100G = 100'000'000'000;
// On the wire, at 100 Gb/s.
inline constexpr Time kFullPacket = (4'000 + 64) * 80;
inline constexpr Time kControlPacket = 64 * 80;

fabric::Graph leaf_spine(uint32_t leaves, uint32_t spines, uint32_t hosts, uint64_t rate_bps = k100G);

// Nothing reacts to queues: what is sent arrives in the order and at the times of plain arithmetic.
PacketConfig plain_config();

// host i sends `bytes` to to[i] (itself: nothing), by the ECMP path of a source port that `seed` draws.
Program permutation(const fabric::Graph& graph, const std::vector<uint32_t>& to, uint64_t bytes, uint32_t seed);
std::vector<uint32_t> random_derangement(uint32_t hosts, uint32_t seed);

}  // namespace orrery::sim
