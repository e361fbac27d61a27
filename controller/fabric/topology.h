// The topology file: one YAML format for lab, controller and simulator.
//
//   schema: 1
//   name: leaf-spine-4x4x16
//   mtu_bytes: 9000
//   defaults: {rate_bps: 100000000, queue_bytes: 262144}      # for ports and NICs that do not say
//   switches:
//     - name: leaf1
//       tier: 1
//       hash: {function: murmur-5tuple, seed: 101}
//       ports: [{name: p1}, {name: p2, rate_bps: 400000000, queue_bytes: 1048576}]
//   hosts:
//     - name: h1
//       nics: [{name: eth0, address: 10.0.1.1}]
//   links:
//     - [h1:eth0, leaf1:p1]
//     - [leaf1:p5, spine1:p1]
//
// Reading reports every mistake at once, each with file, line, key and cure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace orrery::fabric {

struct Port {
  std::string name;
  uint64_t rate_bps = 0;
  uint64_t queue_bytes = 0;
  IpAddress address;  // NICs only
};

struct SwitchSpec {
  std::string name;
  uint32_t tier = 1;
  uint8_t hash_function = 1;
  uint32_t hash_seed = 0;
  std::vector<Port> ports;
};

struct HostSpec {
  std::string name;
  std::vector<Port> nics;
};

struct PortRef {
  std::string node;
  std::string port;
};

struct Cable {
  PortRef a;
  PortRef b;
};

struct Topology {
  std::string name;
  uint32_t mtu_bytes = 9000;
  std::vector<SwitchSpec> switches;
  std::vector<HostSpec> hosts;
  std::vector<Cable> links;
};

// On failure the message has one line per mistake: "FILE:LINE: KEY: what is wrong; what to do".
Result<Topology> load_topology(const std::string& path);
Result<Topology> parse_topology(std::string_view yaml, const std::string& file_name);
// The file that load_topology() reads back to the same Topology.
std::string to_yaml(const Topology& topology);
// Validated and resolved, for scripts (the lab): {"name","mtu_bytes","switches":[{"name","tier","hash":{...},"ports":[{"name","rate_bps","queue_bytes","peer","mac","peer_mac"}]}],
// "hosts":[{"name","nics":[{"name","address","rate_bps","queue_bytes","peer","mac","peer_mac"}]}],"links":[{"a","b","rate_bps"}]}; peer is "leaf1:p1".
std::string to_json(const Topology& topology);

struct LeafSpine {
  uint32_t leaves = 4;
  uint32_t spines = 4;
  uint32_t hosts = 16;           // in all, dealt evenly: hosts 1..n/leaves sit on leaf1
  uint64_t rate_bps = 100'000'000;
  uint64_t uplink_rate_bps = 0;  // 0: the same as rate_bps
  uint64_t queue_bytes = 262'144;
  uint32_t mtu_bytes = 9000;
  uint32_t hash_seed = 1;        // switch k gets a seed derived from it
};
Result<Topology> generate_leaf_spine(const LeafSpine& shape);

// Locally administered MAC address of a port, the same wherever it is computed: derived from "node:port".
std::string port_mac(std::string_view node, std::string_view port);

}  // namespace orrery::fabric
