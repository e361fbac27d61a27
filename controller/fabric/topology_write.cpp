#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common/abi/ecmp_hash_abi.h"
#include "controller/fabric/topology.h"

namespace orrery::fabric {
namespace {

using Json = nlohmann::ordered_json;

std::string ref_text(const PortRef& ref) {
  return ref.node + ":" + ref.port;
}

std::string port_yaml(const Port& port, const Port& defaults, bool is_nic) {
  std::string text = "{name: " + port.name;
  if (is_nic) text += fmt::format(", address: '{}'", port.address.to_string());
  if (port.rate_bps != defaults.rate_bps) text += fmt::format(", rate_bps: {}", port.rate_bps);
  if (port.queue_bytes != defaults.queue_bytes) text += fmt::format(", queue_bytes: {}", port.queue_bytes);
  return text + "}";
}

void append_ports(std::string& out, std::string_view key, const std::vector<Port>& ports, const Port& defaults,
                  bool is_nic) {
  fmt::format_to(std::back_inserter(out), "    {}:\n", key);
  for (const Port& port : ports) out += "      - " + port_yaml(port, defaults, is_nic) + "\n";
}

// The far end of every cabled port.
class Peers {
 public:
  explicit Peers(const Topology& topology) {
    for (const Cable& cable : topology.links) {
      peers_.emplace(ref_text(cable.a), &cable.b);
      peers_.emplace(ref_text(cable.b), &cable.a);
    }
  }
  const PortRef* of(const PortRef& port) const {
    const auto found = peers_.find(ref_text(port));
    return found == peers_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string, const PortRef*> peers_;
};

Json port_json(const std::string& node, const Port& port, bool is_nic, const Peers& peers) {
  const PortRef* peer = peers.of({node, port.name});
  Json json;
  json["name"] = port.name;
  if (is_nic) json["address"] = port.address.to_string();
  json["rate_bps"] = port.rate_bps;
  json["queue_bytes"] = port.queue_bytes;
  json["peer"] = peer == nullptr ? "" : ref_text(*peer);
  json["mac"] = port_mac(node, port.name);
  json["peer_mac"] = peer == nullptr ? "" : port_mac(peer->node, peer->port);
  return json;
}

}  // namespace

std::string_view hash_function_name(uint8_t hash_function) {
  return hash_function == ORRERY_HASH_MURMUR_5TUPLE ? "murmur-5tuple" : "none";
}

std::string to_yaml(const Topology& topology) {
  Port defaults;
  if (!topology.hosts.empty() && !topology.hosts[0].nics.empty()) defaults = topology.hosts[0].nics[0];
  std::string out = fmt::format("schema: 1\nname: {}\nmtu_bytes: {}\n", topology.name, topology.mtu_bytes);
  if (defaults.rate_bps != 0)
    out += fmt::format("defaults: {{rate_bps: {}, queue_bytes: {}}}\n", defaults.rate_bps, defaults.queue_bytes);
  out += "switches:\n";
  for (const SwitchSpec& spec : topology.switches) {
    out += fmt::format("  - name: {}\n    tier: {}\n    hash: {{function: {}, seed: {}}}\n", spec.name, spec.tier,
                       hash_function_name(spec.hash_function), spec.hash_seed);
    append_ports(out, "ports", spec.ports, defaults, false);
  }
  out += "hosts:\n";
  for (const HostSpec& spec : topology.hosts) {
    out += fmt::format("  - name: {}\n", spec.name);
    append_ports(out, "nics", spec.nics, defaults, true);
  }
  out += "links:\n";
  for (const Cable& cable : topology.links) out += fmt::format("  - [{}, {}]\n", ref_text(cable.a), ref_text(cable.b));
  return out;
}

std::string to_json(const Topology& topology) {
  const Peers peers(topology);
  std::unordered_map<std::string, uint64_t> rates;
  Json json;
  json["name"] = topology.name;
  json["mtu_bytes"] = topology.mtu_bytes;
  json["switches"] = Json::array();
  for (const SwitchSpec& spec : topology.switches) {
    Json node;
    node["name"] = spec.name;
    node["tier"] = spec.tier;
    node["hash"]["function"] = hash_function_name(spec.hash_function);
    node["hash"]["seed"] = spec.hash_seed;
    node["ports"] = Json::array();
    for (const Port& port : spec.ports) {
      node["ports"].push_back(port_json(spec.name, port, false, peers));
      rates[spec.name + ":" + port.name] = port.rate_bps;
    }
    json["switches"].push_back(std::move(node));
  }
  json["hosts"] = Json::array();
  for (const HostSpec& spec : topology.hosts) {
    Json node;
    node["name"] = spec.name;
    node["nics"] = Json::array();
    for (const Port& nic : spec.nics) {
      node["nics"].push_back(port_json(spec.name, nic, true, peers));
      rates[spec.name + ":" + nic.name] = nic.rate_bps;
    }
    json["hosts"].push_back(std::move(node));
  }
  json["links"] = Json::array();
  for (const Cable& cable : topology.links) {
    Json link;
    link["a"] = ref_text(cable.a);
    link["b"] = ref_text(cable.b);
    link["rate_bps"] = rates[ref_text(cable.a)];
    json["links"].push_back(std::move(link));
  }
  return json.dump(1);
}

std::string port_mac(std::string_view node, std::string_view port) {
  // FNV-1a, then MurmurHash3's 64-bit finalizer so that names that differ in one digit differ in every byte.
  uint64_t hash = 0xcbf29ce484222325ull;
  const auto mix = [&](std::string_view text) {
    for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  };
  mix(node);
  mix(":");
  mix(port);
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdull;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ull;
  hash ^= hash >> 33;
  uint8_t bytes[6];
  for (int i = 0; i < 6; ++i) bytes[i] = static_cast<uint8_t>(hash >> (8 * i));
  bytes[0] = static_cast<uint8_t>((bytes[0] & 0xfc) | 0x02);  // unicast, locally administered
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
                     bytes[5]);
}

}  // namespace orrery::fabric
