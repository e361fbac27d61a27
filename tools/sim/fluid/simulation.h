// Runs a program over a fabric with flows as fluids: every queue pair that has something to send moves at its fair
// rate, which changes when another starts or ends. What is fair is config.h's Sharing.
//
// What it leaves out: losses, pauses, and that a sender takes time to find its rate: with DCQCN 10 to 20 ms. With
// kMaxMin ACKs take no capacity (1.6 % of a link that carries 4000-byte packets the other way). docs/simulator.md has
// how far mean completion is from the packet engine's, and why.
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
