#include "tools/sim/packet/wires.h"

namespace orrery::sim {

Wires make_wires(const fabric::Graph& graph, const PacketConfig& config) {
  Wires result;
  result.node_count = static_cast<uint32_t>(graph.nodes().size());
  for (const fabric::Link& link : graph.links()) {
    Wire wire;
    wire.scale = static_cast<uint64_t>((static_cast<__uint128_t>(8'000'000'000'000) << 16) / link.rate_bps);
    wire.reverse = link.reverse;
    wire.from_node = link.from;
    wire.to_node = link.to;
    wire.limit_bytes = config.switches.port_limit_bytes != 0 ? config.switches.port_limit_bytes : link.queue_bytes;
    result.wires.push_back(wire);
  }
  for (uint32_t host = 0; host < graph.nics().size(); ++host) {
    const fabric::LinkId uplink = graph.nics()[host].uplink;
    result.uplink_of.push_back(uplink);
    result.wires[uplink].from_host = host;
    result.wires[result.wires[uplink].reverse].to_host = host;
  }
  return result;
}

}  // namespace orrery::sim
