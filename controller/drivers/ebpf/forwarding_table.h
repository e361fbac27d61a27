// What one switch knows of the fabric: its ports, the equal-cost groups and the group of each destination. Pure: Graph
// in, tables out.
//
// A port's index is its link's position in Node::egress, which is also the order of ECMP group members. Addresses are
// in host byte order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"

namespace orrery::drivers::ebpf {

using MacAddress = std::array<uint8_t, 6>;

struct PortSpec {
  std::string name;
  MacAddress own_mac{};
  MacAddress peer_mac{};
};

struct Group {
  std::vector<uint8_t> members;  // port indices, ascending
  uint64_t detour_ports = 0;  // bit per port: neighbours whose own group for the destination has more than this switch
};

struct Route {
  uint32_t address = 0;
  uint32_t group = 0;
};

struct ForwardingTable {
  std::string switch_name;
  uint32_t hash_seed = 0;
  std::vector<PortSpec> ports;
  std::vector<Group> groups;
  std::vector<Route> routes;

  // Index of the port, or nothing.
  std::optional<uint8_t> find_port(std::string_view name) const;
};

// kNotFound: no such switch. kExhausted: more ports, groups or routes than the data plane holds. kInvalidArgument:
// another hash function than the data plane's.
Result<ForwardingTable> make_forwarding_table(const fabric::Graph& graph, std::string_view switch_name);

// "02:11:22:33:44:55"
Result<MacAddress> parse_mac(std::string_view text);

}  // namespace orrery::drivers::ebpf
