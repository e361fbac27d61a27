#include "controller/drivers/ebpf/forwarding_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "common/abi/ecmp_hash_abi.h"
#include "common/abi/switch_abi.h"
#include "common/base/nearest_name.h"
#include "controller/fabric/topology.h"

namespace orrery::drivers::ebpf {
namespace {

Error unknown_switch(const fabric::Graph& graph, std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& node : graph.nodes())
    if (node.kind == fabric::NodeKind::kSwitch) names.push_back(node.name);
  return {ErrorCode::kNotFound, fmt::format("the topology has no switch '{}'{}", name, did_you_mean(name, names))};
}

Result<std::vector<PortSpec>> make_ports(const fabric::Graph& graph, const fabric::Node& node) {
  std::vector<PortSpec> ports;
  for (fabric::LinkId id : node.egress) {
    const auto& link = graph.link(id);
    PortSpec port{.name = link.port};
    ORRERY_ASSIGN(port.own_mac, parse_mac(fabric::port_mac(node.name, link.port)));
    ORRERY_ASSIGN(port.peer_mac, parse_mac(fabric::port_mac(graph.node(link.to).name, link.peer_port)));
    ports.push_back(std::move(port));
  }
  return ports;
}

// A neighbour switch helps when, asked for the same destination, it has a way on that is not back through here.
uint64_t detours(const fabric::Graph& graph, const fabric::Node& node, fabric::NodeId self, const fabric::Nic& nic,
                 const std::vector<uint8_t>& members) {
  uint64_t ports = 0;
  for (size_t i = 0; i < node.egress.size(); ++i) {
    const auto& link = graph.link(node.egress[i]);
    if (graph.node(link.to).kind != fabric::NodeKind::kSwitch) continue;
    if (std::find(members.begin(), members.end(), i) != members.end()) continue;
    const auto onward = graph.next_hops(link.to, nic);
    const bool helps =
        std::any_of(onward.begin(), onward.end(), [&](fabric::LinkId id) { return graph.link(id).to != self; });
    if (helps) ports |= uint64_t{1} << i;
  }
  return ports;
}

std::vector<uint8_t> member_ports(const fabric::Node& node, std::span<const fabric::LinkId> hops) {
  std::vector<uint8_t> members;
  for (fabric::LinkId id : hops)
    members.push_back(
        static_cast<uint8_t>(std::find(node.egress.begin(), node.egress.end(), id) - node.egress.begin()));
  return members;
}

Status add_routes(const fabric::Graph& graph, const fabric::Node& node, fabric::NodeId self, ForwardingTable& table) {
  std::map<std::pair<std::vector<uint8_t>, uint64_t>, uint32_t> group_of;
  for (const auto& nic : graph.nics()) {
    const auto address = nic.address.v4();
    if (!address) continue;
    auto members = member_ports(node, graph.next_hops(self, nic));
    if (members.empty()) continue;
    const uint64_t detour_ports = detours(graph, node, self, nic, members);
    const auto [entry, fresh] = group_of.try_emplace({members, detour_ports}, table.groups.size());
    if (fresh) table.groups.push_back({std::move(members), detour_ports});
    table.routes.push_back({*address, entry->second});
  }
  if (table.groups.size() > ORRERY_SWITCH_MAX_GROUPS || table.routes.size() > ORRERY_SWITCH_MAX_ROUTES)
    return Error{
        ErrorCode::kExhausted,
        fmt::format("switch '{}' needs {} routes in {} groups; the data plane holds {} and {}", node.name,
                    table.routes.size(), table.groups.size(), ORRERY_SWITCH_MAX_ROUTES, ORRERY_SWITCH_MAX_GROUPS)};
  return {};
}

}  // namespace

std::optional<uint8_t> ForwardingTable::find_port(std::string_view name) const {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name) return static_cast<uint8_t>(i);
  return std::nullopt;
}

Result<ForwardingTable> make_forwarding_table(const fabric::Graph& graph, std::string_view switch_name) {
  const auto id = graph.find_node(switch_name);
  if (!id || graph.node(*id).kind != fabric::NodeKind::kSwitch) return unknown_switch(graph, switch_name);
  const auto& node = graph.node(*id);
  if (node.hash_function != ORRERY_HASH_MURMUR_5TUPLE)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("switch '{}' asks for hash function {}; orrery-switch has murmur-5tuple only", node.name,
                             node.hash_function)};
  if (node.egress.size() > ORRERY_SWITCH_MAX_PORTS)
    return Error{ErrorCode::kExhausted,
                 fmt::format("switch '{}' has {} connected ports; orrery-switch forwards between at most {}", node.name,
                             node.egress.size(), ORRERY_SWITCH_MAX_PORTS)};
  ForwardingTable table{.switch_name = node.name, .hash_seed = node.hash_seed};
  ORRERY_ASSIGN(table.ports, make_ports(graph, node));
  ORRERY_TRY(add_routes(graph, node, *id, table));
  return table;
}

Result<MacAddress> parse_mac(std::string_view text) {
  MacAddress mac{};
  const std::string copy(text);
  int used = 0;
  const int fields = std::sscanf(copy.c_str(), "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2],
                                 &mac[3], &mac[4], &mac[5], &used);
  if (fields != 6 || static_cast<size_t>(used) != copy.size())
    return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is not a MAC address such as 02:00:00:00:00:01", text)};
  return mac;
}

}  // namespace orrery::drivers::ebpf
