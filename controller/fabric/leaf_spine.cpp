#include <fmt/format.h>

#include "common/abi/ecmp_hash_abi.h"
#include "controller/fabric/topology.h"

namespace orrery::fabric {
namespace {

Error bad_shape(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

Status check_shape(const LeafSpine& shape) {
  if (shape.leaves == 0 || shape.spines == 0 || shape.hosts == 0)
    return bad_shape("a leaf-spine fabric needs at least one leaf, one spine and one host");
  if (shape.leaves > kMaxSwitchPorts)
    return bad_shape(fmt::format("{} leaves need as many ports on each spine; a switch has at most {}", shape.leaves,
                                 kMaxSwitchPorts));
  if (shape.hosts % shape.leaves != 0)
    return bad_shape(fmt::format("{} hosts do not divide evenly over {} leaves; take {} or {}", shape.hosts,
                                 shape.leaves, shape.hosts - shape.hosts % shape.leaves,
                                 shape.hosts - shape.hosts % shape.leaves + shape.leaves));
  const uint64_t leaf_ports = uint64_t{shape.hosts / shape.leaves} + shape.spines;
  if (leaf_ports > kMaxSwitchPorts)
    return bad_shape(
        fmt::format("a leaf with {} hosts and {} spines needs {} ports; a switch has at most {}: take more leaves",
                    shape.hosts / shape.leaves, shape.spines, leaf_ports, kMaxSwitchPorts));
  return {};
}

SwitchSpec make_switch(std::string name, uint32_t tier, uint32_t seed, uint32_t number) {
  SwitchSpec spec;
  spec.name = std::move(name);
  spec.tier = tier;
  spec.hash_seed = switch_hash_seed(seed, number);
  return spec;
}

}  // namespace

uint32_t switch_hash_seed(uint32_t fabric_seed, uint32_t number) {
  constexpr uint32_t kSalt = 0x4f525259;  // keeps fabric_seed == number from giving 0
  return orrery_hash_round(orrery_hash_round(kSalt, fabric_seed), number);
}

Result<Topology> generate_leaf_spine(const LeafSpine& shape) {
  ORRERY_TRY(check_shape(shape));
  const uint32_t hosts_per_leaf = shape.hosts / shape.leaves;
  const uint64_t uplink_rate = shape.uplink_rate_bps != 0 ? shape.uplink_rate_bps : shape.rate_bps;
  Topology topology;
  topology.name = fmt::format("leaf-spine-{}x{}x{}", shape.leaves, shape.spines, shape.hosts);
  topology.mtu_bytes = shape.mtu_bytes;
  for (uint32_t l = 1; l <= shape.leaves; ++l) {
    SwitchSpec leaf = make_switch(fmt::format("leaf{}", l), 1, shape.hash_seed, l);
    for (uint32_t p = 1; p <= hosts_per_leaf + shape.spines; ++p)
      leaf.ports.push_back(
          {fmt::format("p{}", p), p <= hosts_per_leaf ? shape.rate_bps : uplink_rate, shape.queue_bytes, {}});
    topology.switches.push_back(std::move(leaf));
  }
  for (uint32_t s = 1; s <= shape.spines; ++s) {
    SwitchSpec spine = make_switch(fmt::format("spine{}", s), 2, shape.hash_seed, shape.leaves + s);
    for (uint32_t l = 1; l <= shape.leaves; ++l)
      spine.ports.push_back({fmt::format("p{}", l), uplink_rate, shape.queue_bytes, {}});
    topology.switches.push_back(std::move(spine));
  }
  for (uint32_t h = 0; h < shape.hosts; ++h) {
    const uint32_t leaf = h / hosts_per_leaf + 1, position = h % hosts_per_leaf + 1;
    const IpAddress address = IpAddress::from_v4((10u << 24) | (leaf << 8) | position);
    topology.hosts.push_back({fmt::format("h{}", h + 1), {{"eth0", shape.rate_bps, shape.queue_bytes, address}}});
    topology.links.push_back(
        {{fmt::format("h{}", h + 1), "eth0"}, {fmt::format("leaf{}", leaf), fmt::format("p{}", position)}});
  }
  for (uint32_t l = 1; l <= shape.leaves; ++l)
    for (uint32_t s = 1; s <= shape.spines; ++s)
      topology.links.push_back({{fmt::format("leaf{}", l), fmt::format("p{}", hosts_per_leaf + s)},
                                {fmt::format("spine{}", s), fmt::format("p{}", l)}});
  ORRERY_TRY(validate(topology));
  return topology;
}

}  // namespace orrery::fabric
