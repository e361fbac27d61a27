#include "tools/planning/fabric/clos.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::planning {
namespace {

using fabric::SwitchSpec;
using fabric::Topology;

class Builder {
 public:
  explicit Builder(const Clos& clos) : clos_(clos) {}

  Topology build() {
    topology_.name = clos_.name;
    topology_.mtu_bytes = clos_.mtu_bytes;
    add_switches();
    add_hosts();
    cable_leaves();
    cable_spines();
    return std::move(topology_);
  }

 private:
  void add_switch(std::string name, uint32_t tier) {
    const auto number = static_cast<uint32_t>(topology_.switches.size() + 1);
    SwitchSpec& spec = topology_.switches.emplace_back();
    spec.name = std::move(name);
    spec.tier = tier;
    cursors_.emplace_back();
    spec.hash_seed = fabric::switch_hash_seed(clos_.hash_seed, number);
  }

  void add_switches() {
    for (const ClosLeaf& leaf : clos_.leaves) add_switch(leaf.name, 1);
    for (const std::string& pod : clos_.pods)
      for (uint32_t s = 1; s <= clos_.spines; ++s) add_switch(fmt::format("{}spine{}", pod, s), 2);
    const uint32_t cores = clos_.spines * clos_.cores;
    for (uint32_t c = 1; c <= cores; ++c) add_switch(fmt::format("core{}", c), 3);
  }

  uint64_t queue_of(uint64_t rate_bps) const {
    const double scaled = static_cast<double>(clos_.queue_bytes_per_100g) * static_cast<double>(rate_bps) / 100e9;
    const uint64_t least = 16ull * (clos_.mtu_bytes + fabric::kEthernetHeaderBytes);
    return std::clamp(static_cast<uint64_t>(std::min(scaled, 1e15)), least, fabric::kMaxQueueBytes);
  }

  std::string add_port(size_t index, uint64_t rate_bps, uint32_t split) {
    Cursor& cursor = cursors_[index];
    if (cursor.lane == 0 || cursor.lane == split) {
      ++cursor.port;
      cursor.lane = 0;
    }
    ++cursor.lane;
    const std::string name =
        split == 1 ? fmt::format("p{}", cursor.port) : fmt::format("p{}.{}", cursor.port, cursor.lane);
    topology_.switches[index].ports.push_back({name, rate_bps, queue_of(rate_bps), {}});
    return name;
  }

  // What comes next begins a port of its own, behind the first `ports`.
  void skip_to(size_t index, uint32_t ports) { cursors_[index] = {std::max(cursors_[index].port, ports), 0}; }

  void add_hosts() {
    uint32_t number = 0;
    for (const ClosHost& host : clos_.hosts) {
      fabric::HostSpec& spec = topology_.hosts.emplace_back();
      spec.name = host.name;
      for (size_t i = 0; i < host.leaves.size(); ++i, ++number) {
        // 250 addresses in each /24 of 10.0.0.0/8, from 10.0.1.1 on.
        const auto address = IpAddress::from_v4((10u << 24) | ((number / 250 + 1) << 8) | (number % 250 + 1));
        spec.nics.push_back({fmt::format("eth{}", i), clos_.nic_bps, queue_of(clos_.nic_bps), address});
        const std::string port = add_port(host.leaves[i], clos_.nic_bps, clos_.nic_split);
        topology_.links.push_back({{spec.name, spec.nics.back().name}, {clos_.leaves[host.leaves[i]].name, port}});
      }
    }
  }

  void add_cable(size_t lower, uint32_t lower_split, size_t upper, uint32_t upper_split, uint64_t rate_bps) {
    const std::string below = add_port(lower, rate_bps, lower_split), above = add_port(upper, rate_bps, upper_split);
    topology_.links.push_back({{topology_.switches[lower].name, below}, {topology_.switches[upper].name, above}});
  }

  size_t spine_index(size_t pod, uint32_t spine) const { return clos_.leaves.size() + pod * clos_.spines + spine; }

  void cable_leaves() {
    for (size_t leaf = 0; leaf < clos_.leaves.size(); ++leaf) {
      skip_to(leaf, clos_.leaf_host_ports);
      for (uint32_t s = 0; s < clos_.spines; ++s)
        for (uint32_t k = 0; k < clos_.cables_per_spine; ++k)
          add_cable(leaf, clos_.leaf_up_split, spine_index(clos_.leaves[leaf].pod, s), clos_.spine_down_split,
                    clos_.uplink_bps);
    }
  }

  void cable_spines() {
    const size_t first_core = spine_index(clos_.pods.size(), 0);
    for (size_t pod = 0; pod < clos_.pods.size(); ++pod)
      for (uint32_t s = 0; s < clos_.spines; ++s) {
        const size_t spine = spine_index(pod, s);
        skip_to(spine, 0);
        for (uint32_t c = 0; c < clos_.cores; ++c)
          for (uint32_t k = 0; k < clos_.cables_per_core; ++k)
            add_cable(spine, clos_.spine_up_split, first_core + s * clos_.cores + c, clos_.core_split, clos_.core_bps);
      }
  }

  struct Cursor {
    uint32_t port = 0;  // the last one that was named
    uint32_t lane = 0;  // of it
  };

  const Clos& clos_;
  Topology topology_;
  std::vector<Cursor> cursors_;  // by switch
};

// Before anything is built: how much that would be.
Status check_size(const Clos& clos) {
  const uint64_t spines = uint64_t{clos.spines} * clos.pods.size();
  const uint64_t switches = clos.leaves.size() + spines + uint64_t{clos.spines} * clos.cores;
  if (switches > fabric::kMaxSwitches)
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the fabric has {} switches; a topology file has at most {}: take switches with more ports",
                    switches, fabric::kMaxSwitches)};
  if (clos.hosts.size() > fabric::kMaxHosts)
    return Error{ErrorCode::kInvalidArgument, fmt::format("the fabric has {} hosts; a topology file has at most {}",
                                                          clos.hosts.size(), fabric::kMaxHosts)};
  const uint64_t widest = std::max<uint64_t>(
      {uint64_t{clos.spines} * clos.cables_per_spine, uint64_t{clos.cores} * clos.cables_per_core, uint64_t{0}});
  if (widest > fabric::kMaxSwitchPorts)
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("a switch has {} ports upwards; at most {}: take faster ports", widest, fabric::kMaxSwitchPorts)};
  return {};
}

}  // namespace

Result<Topology> topology_of(const Clos& clos) {
  ORRERY_TRY(check_size(clos));
  Topology topology = Builder(clos).build();
  ORRERY_TRY(fabric::validate(topology));
  return topology;
}

Result<std::string> topology_file(const Topology& topology) {
  std::string text = fabric::to_yaml(topology);
  // Also what a reader counts beside bytes: values.
  if (fabric::parse_topology(text, topology.name)) return text;
  return Error{
      ErrorCode::kExhausted,
      fmt::format("the topology file of {} hosts and {} cables would be {} MiB, more than a reader takes; write "
                  "one with fewer hosts or NICs",
                  topology.hosts.size(), topology.links.size(), text.size() >> 20)};
}

}  // namespace orrery::planning
