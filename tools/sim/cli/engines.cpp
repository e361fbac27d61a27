#include <algorithm>

#include "tools/sim/cli/command.h"
#include "tools/sim/fluid/simulation.h"
#include "tools/sim/packet/simulation.h"

namespace orrery::sim {
namespace {

// What both engines have settings for.
FluidConfig fluid_config(const Scenario& scenario, const PacketConfig& packet) {
  FluidConfig fluid;
  fluid.sharing = scenario.sharing;
  fluid.payload_bytes = packet.transport.payload_bytes;
  fluid.header_bytes = packet.transport.header_bytes;
  fluid.control_bytes = packet.transport.control_bytes;
  fluid.ack_every = packet.transport.ack_every;
  fluid.cut_through = packet.switches.cut_through;
  fluid.forwarding_delay = packet.switches.forwarding_delay;
  fluid.propagation = packet.propagation;
  fluid.faults = packet.faults;
  fluid.fault_detection = packet.fault_detection;
  fluid.recording = packet.recording;
  return fluid;
}

// Nothing is marked, paused or lost, however many send to one: else their NICs would slow down, and schemes that keep
// them from it look better than the ideal. Windows keep queues within memory; they are many round trips long.
void unhinder(const fabric::Graph& graph, PacketConfig& config) {
  config.dcqcn.enabled = config.ecn.enabled = config.pfc.enabled = false;
  config.switches.buffer_bytes = uint64_t{1} << 60;
  config.switches.port_limit_bytes = 4'000'000'000;  // what a port counts up to
  uint64_t fastest = 0;
  for (const fabric::Nic& nic : graph.nics()) fastest = std::max(fastest, graph.link(nic.uplink).rate_bps);
  const double round_trip_s = 12.0 * static_cast<double>(config.propagation + 2 * kPerUs) / 1e12;
  if (config.transport.window_bytes == 0)
    config.transport.window_bytes = static_cast<uint64_t>(4 * round_trip_s * static_cast<double>(fastest) / 8) + 1;
  if (config.faults.empty())  // nothing is lost, however long it waits
    config.transport.retransmit_timeout = std::max<Time>(config.transport.retransmit_timeout, 10'000 * kPerMs);
}

// A few tens of megabytes at most: fewer slices of larger fabrics.
Recording recording_of(const fabric::Graph& graph) {
  constexpr size_t kCells = 4'000'000;
  const size_t slices = kCells / std::max<size_t>(1, graph.links().size());
  return {.slice = 4 * kPerUs, .most_slices = static_cast<uint32_t>(std::clamp<size_t>(slices, 32, 256) / 2 * 2)};
}

}  // namespace

std::function<void(std::vector<FlowRoute>&)> reduction_of(const Scenario& scenario) {
  // Where links may fail, backups and what a scheme does about them count.
  if (scenario.engine != Engine::kFluid || !scenario.faults.empty()) return {};
  return [](std::vector<FlowRoute>& routes) {
    for (FlowRoute& route : routes)
      for (QpRoute& qp : route.qps) {
        const bool stays = qp.policy == PathPolicy::kStatic || qp.policy == PathPolicy::kFlowlet;
        if (stays) qp.paths.resize(1);
        qp.policy = qp.paths.size() == 1 ? PathPolicy::kStatic : PathPolicy::kSpray;
      }
  };
}

EngineRun engine_of(const Scenario& scenario) {
  return [&scenario](const fabric::Graph& graph, const Program& program,
                     const EngineRequest& request) -> Result<RunResult> {
    ORRERY_ASSIGN(PacketConfig config, packet_config(scenario, graph, request.scheme, request.seed));
    if (request.ideal) unhinder(graph, config);
    if (request.record) config.recording = recording_of(graph);
    if (scenario.engine == Engine::kFluid)
      return run_fluid(graph, program, fluid_config(scenario, config), request.watch);
    ORRERY_TRY(check_packet_counts(program, config));
    return run_packets(graph, program, config, request.watch);
  };
}

}  // namespace orrery::sim
