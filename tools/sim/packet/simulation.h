// Runs a program over a fabric, packet by packet.
#pragma once

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/sim/model/program.h"
#include "tools/sim/model/result.h"
#include "tools/sim/packet/config.h"

namespace orrery::sim {

// Queue pairs count their packets in 32 bits. Errors: kInvalidArgument names one that has more to send, and the cure.
Status check_packet_counts(const Program& program, const PacketConfig& config);

// Precondition: check_packet_counts() found nothing.
// Same program, fabric and config: the same result to the picosecond, whatever config.threads says and whoever watches.
RunResult run_packets(const fabric::Graph& graph, const Program& program, const PacketConfig& config,
                      const Watch& watch = {});

}  // namespace orrery::sim
