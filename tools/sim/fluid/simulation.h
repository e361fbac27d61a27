// Runs a program over a fabric with flows as fluids: every queue pair that has something to send moves at its max-min
// fair rate (demand weighted by the share of each link it uses), which changes when another starts or ends.
//
// What it leaves out: queues, losses, and that a sender takes time to find its rate. ACKs take no capacity (1.6 % of a
// link that carries 4000-byte packets the other way). Mean completion is the packet engine's within 3 % for
// permutations of long flows; for several flows a host with PFC alone, which also holds back flows that do not share
// the bottleneck, the packet engine was up to 16 % slower (8 leaves, 4 spines, 32 hosts;
// tests/unit/sim/fluid_test.cpp).
#pragma once

#include "controller/fabric/graph.h"
#include "tools/sim/fluid/config.h"
#include "tools/sim/model/program.h"
#include "tools/sim/model/result.h"

namespace orrery::sim {

// A message that meets no other is delivered when the packet engine would deliver it, to the picosecond where link
// rates divide. Same program, fabric and config: the same result.
// Preconditions: links of faults are those of the graph; a program of ProgramBuilder::build() or of the same shape.
RunResult run_fluid(const fabric::Graph& graph, const Program& program, const FluidConfig& config,
                    const Watch& watch = {});

}  // namespace orrery::sim
