#include "tools/sim/cli/command.h"
#include "tools/sim/fluid/simulation.h"
#include "tools/sim/packet/simulation.h"

namespace orrery::sim {
namespace {

// What both engines have settings for.
FluidConfig fluid_config(const PacketConfig& packet) {
  FluidConfig fluid;
  fluid.payload_bytes = packet.transport.payload_bytes;
  fluid.header_bytes = packet.transport.header_bytes;
  fluid.control_bytes = packet.transport.control_bytes;
  fluid.cut_through = packet.switches.cut_through;
  fluid.forwarding_delay = packet.switches.forwarding_delay;
  fluid.propagation = packet.propagation;
  fluid.faults = packet.faults;
  fluid.fault_detection = packet.fault_detection;
  return fluid;
}

}  // namespace

EngineRun engine_of(const Scenario& scenario) {
  return [&scenario](const fabric::Graph& graph, const Program& program, Scheme scheme,
                     uint64_t seed) -> Result<RunResult> {
    ORRERY_ASSIGN(const PacketConfig config, packet_config(scenario, graph, scheme, seed));
    if (scenario.engine == Engine::kFluid) return run_fluid(graph, program, fluid_config(config));
    return run_packets(graph, program, config);
  };
}

}  // namespace orrery::sim
