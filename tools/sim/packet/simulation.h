// Runs a program over a fabric, packet by packet.
#pragma once

#include "controller/fabric/graph.h"
#include "tools/sim/model/program.h"
#include "tools/sim/model/result.h"
#include "tools/sim/packet/config.h"

namespace orrery::sim {

// Same program, fabric and config: the same result to the picosecond, whatever config.threads says and whoever watches.
RunResult run_packets(const fabric::Graph& graph, const Program& program, const PacketConfig& config,
                      const Watch& watch = {});

}  // namespace orrery::sim
