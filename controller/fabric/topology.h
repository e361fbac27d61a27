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
  bool operator==(const Port&) const = default;
};

struct SwitchSpec {
  std::string name;
  uint32_t tier = 1;
  uint8_t hash_function = 1;
  uint32_t hash_seed = 0;
  std::vector<Port> ports;
  bool operator==(const SwitchSpec&) const = default;
};

struct HostSpec {
  std::string name;
  std::vector<Port> nics;
  bool operator==(const HostSpec&) const = default;
};

struct PortRef {
  std::string node;
  std::string port;
  bool operator==(const PortRef&) const = default;
};

struct Cable {
  PortRef a;
  PortRef b;
  bool operator==(const Cable&) const = default;
};

struct Topology {
  std::string name;
  uint32_t mtu_bytes = 9000;
  std::vector<SwitchSpec> switches;
  std::vector<HostSpec> hosts;
  std::vector<Cable> links;
  bool operator==(const Topology&) const = default;
};

// What a topology may hold. The lab makes ports into network interfaces, hence the length of their names.
inline constexpr size_t kMaxSwitches = 8192;
inline constexpr size_t kMaxHosts = 131'072;
inline constexpr size_t kMaxSwitchPorts = 1024;  // a driver may take fewer
inline constexpr size_t kMaxHostNics = 64;
inline constexpr size_t kMaxNodeNameBytes = 63;
inline constexpr size_t kMaxPortNameBytes = 15;
inline constexpr uint32_t kMinMtuBytes = 576;
inline constexpr uint32_t kMaxMtuBytes = 9216;
inline constexpr uint64_t kMinRateBps = 1'000;
inline constexpr uint64_t kMaxRateBps = 10'000'000'000'000;
inline constexpr uint64_t kMaxQueueBytes = 1ull << 34;
inline constexpr uint32_t kMaxTier = 15;
inline constexpr uint32_t kEthernetHeaderBytes = 14;  // a queue must hold mtu_bytes + this

// On failure the message has one line per mistake: "FILE:LINE: KEY: what is wrong; what to do".
Result<Topology> load_topology(const std::string& path);
Result<Topology> parse_topology(std::string_view yaml, const std::string& file_name);
// The same checks on a topology that was not read from a file: every mistake, one a line.
Status validate(const Topology& topology);
// The file that load_topology() reads back to the same Topology.
std::string to_yaml(const Topology& topology);
// Validated and resolved, for scripts (the lab):
// {"name","mtu_bytes","switches":[{"name","tier","hash":{...},"ports":[{"name","rate_bps","queue_bytes","peer","mac","peer_mac"}]}],
// "hosts":[{"name","nics":[{"name","address","rate_bps","queue_bytes","peer","mac","peer_mac"}]}],"links":[{"a","b","rate_bps"}]};
// peer is "leaf1:p1",
// "" (as peer_mac) for a port without a cable.
std::string to_json(const Topology& topology);

struct LeafSpine {
  uint32_t leaves = 4;
  uint32_t spines = 4;
  uint32_t hosts = 16;  // in all, dealt evenly: hosts 1..n/leaves sit on leaf1
  uint64_t rate_bps = 100'000'000;
  uint64_t uplink_rate_bps = 0;    // 0: the same as rate_bps
  uint64_t queue_bytes = 131'072;  // 14 jumbo packets, 10 ms at 100 Mbit/s: deep for a switch, so that losses are
                                   // congestion's, not the default's
  uint32_t mtu_bytes = 9000;
  uint32_t hash_seed = 1;  // switch k gets switch_hash_seed(hash_seed, k), k from 1 on
};
// kInvalidArgument when the shape breaks a limit above or the hosts do not divide evenly.
Result<Topology> generate_leaf_spine(const LeafSpine& shape);
// ECMP seed of a generated fabric's k-th switch.
uint32_t switch_hash_seed(uint32_t fabric_seed, uint32_t number);

// "murmur-5tuple" for ORRERY_HASH_MURMUR_5TUPLE; "none" for ORRERY_HASH_NONE: how the switch hashes is not known.
std::string_view hash_function_name(uint8_t hash_function);

// Locally administered MAC address of a port, the same wherever it is computed: derived from "node:port".
std::string port_mac(std::string_view node, std::string_view port);

}  // namespace orrery::fabric
