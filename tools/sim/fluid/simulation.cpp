#include "tools/sim/fluid/simulation.h"

#include "tools/sim/fluid/run.h"

namespace orrery::sim {

RunResult run_fluid(const fabric::Graph& graph, const Program& program, const FluidConfig& config, const Watch& watch) {
  return FluidRun(graph, program, config).run(watch);
}

}  // namespace orrery::sim
