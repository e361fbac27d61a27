// What follows from a design: hosts under leaves, losses, a bill, cables.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "common/abi/ecmp_hash_abi.h"
#include "tools/planning/fabric/counts.h"
#include "tools/planning/fabric/design.h"

namespace orrery::planning {
namespace {

// Hosts of group `group`, the rest dealt to the first ones.
uint32_t hosts_of_group(const Design& design, uint32_t group) {
  const uint32_t groups = design.groups();
  return design.input.hosts / groups + (group < design.input.hosts % groups ? 1 : 0);
}

// Switch ports with a cable to NICs, over all leaves.
uint64_t host_ports(const Design& design) {
  const uint32_t nics = design.input.rails ? 1 : design.input.nics;
  const uint32_t leaves = design.input.rails ? design.input.nics : 1;
  uint64_t ports = 0;
  for (uint32_t group = 0; group < design.groups(); ++group)
    ports += leaves * ceil_div(uint64_t{hosts_of_group(design, group)} * nics, design.leaf.down_split);
  return ports;
}

// Ports of spines with cables to leaves.
uint64_t spine_down_ports(const Design& design) {
  uint64_t ports = 0;
  for (uint32_t pod = 0; pod < design.pods; ++pod) {
    const uint32_t leaves = std::min(
        design.leaves_per_pod, design.leaf.switches - std::min(design.leaf.switches, pod * design.leaves_per_pod));
    ports += design.spines_per_pod() * ceil_div(uint64_t{leaves} * design.cables_per_spine, design.spine.down_split);
  }
  return ports;
}

uint64_t up_ports(const TierShape& tier) {
  return uint64_t{tier.switches} * ceil_div(tier.up, tier.up_split);
}

// Cables between two tiers; a port that is split on one side makes them breakout cables.
BillItem cables(const std::string& between, uint64_t rate_bps, uint64_t count, uint64_t lower_ports, uint32_t lower,
                uint64_t upper_ports, uint32_t upper) {
  if (lower > 1) return {fmt::format("cable {}, 1 to {} x {}", between, lower, rate_text(rate_bps)), lower_ports};
  if (upper > 1) return {fmt::format("cable {}, {} x {} to 1", between, upper, rate_text(rate_bps)), upper_ports};
  return {fmt::format("cable {}, {}", between, rate_text(rate_bps)), count};
}

Loss lost_leaf(const Design& design) {
  const DesignInput& input = design.input;
  const double share = input.rails ? 1.0 / input.nics : 1;
  return {"one leaf", fmt::format("its {} hosts", hosts_of_group(design, 0)), share,
          static_cast<uint64_t>(static_cast<double>(input.nic_bps) * input.nics * (1 - share)), 0};
}

Loss lost_uplinks(const Design& design, std::string part, std::string affected, double share) {
  const double left = 1 - share;
  const auto all = static_cast<double>(design.leaf.up) * static_cast<double>(design.uplink_bps);
  return {std::move(part), std::move(affected), share, static_cast<uint64_t>(all * left + 0.5),
          left > 0 ? design.oversubscription / left : 0};
}

}  // namespace

Clos clos_of(const Design& design, const std::string& name) {
  const DesignInput& input = design.input;
  const uint32_t leaves_per_group = input.rails ? input.nics : 1;
  Clos clos{.name = name, .nic_bps = input.nic_bps, .uplink_bps = design.uplink_bps, .core_bps = design.core_bps};
  for (uint32_t pod = 1; pod <= design.pods; ++pod)
    clos.pods.push_back(design.tiers == 3 ? fmt::format("pod{}-", pod) : "");
  for (uint32_t group = 0; group < design.groups(); ++group) {
    const uint32_t first = group * leaves_per_group, pod = first / design.leaves_per_pod;
    for (uint32_t rail = 0; rail < leaves_per_group; ++rail)
      clos.leaves.push_back({input.rails ? fmt::format("{}group{}-rail{}", clos.pods[pod], group + 1, rail + 1)
                                         : fmt::format("{}leaf{}", clos.pods[pod], group + 1),
                             pod});
    for (uint32_t k = 0; k < hosts_of_group(design, group); ++k) {
      ClosHost& host = clos.hosts.emplace_back();
      host.name = fmt::format("h{}", clos.hosts.size());
      for (uint32_t nic = 0; nic < input.nics; ++nic) host.leaves.push_back(first + (input.rails ? nic : 0));
    }
  }
  clos.spines = design.spines_per_pod();
  clos.cables_per_spine = design.cables_per_spine;
  clos.cores = clos.spines == 0 ? 0 : design.core.switches / clos.spines;
  clos.cables_per_core = design.cables_per_core;
  clos.nic_split = design.leaf.down_split;
  clos.leaf_up_split = design.leaf.up_split;
  clos.spine_down_split = design.spine.down_split;
  clos.spine_up_split = design.spine.up_split;
  clos.core_split = design.core.down_split;
  clos.leaf_host_ports = ceil_div(design.leaf.down, design.leaf.down_split);
  return clos;
}

std::vector<Loss> losses(const Design& design) {
  std::vector<Loss> all{lost_leaf(design)};
  if (design.tiers == 1) return all;
  all.push_back(lost_uplinks(design, "one uplink of a leaf", "that leaf", 1.0 / design.leaf.up));
  all.push_back(lost_uplinks(design, "one spine", design.tiers == 2 ? "every leaf" : "every leaf of its pod",
                             1.0 / design.spines_per_pod()));
  if (design.tiers == 2) return all;
  const double share = 1.0 / design.core.switches;
  const double pod =
      static_cast<double>(design.spines_per_pod()) * design.spine.up * static_cast<double>(design.core_bps);
  all.push_back({"one core", "every pod", share, static_cast<uint64_t>(pod * (1 - share) + 0.5),
                 share < 1 ? design.core_oversubscription / (1 - share) : 0});
  return all;
}

std::vector<BillItem> bill(const Design& design) {
  const DesignInput& input = design.input;
  std::vector<BillItem> items{{"leaf switch, " + name_of(input.leaf), design.leaf.switches}};
  if (design.tiers > 1) items.push_back({"spine switch, " + name_of(input.spine), design.spine.switches});
  if (design.tiers > 2) items.push_back({"core switch, " + name_of(input.core), design.core.switches});
  const uint64_t nics = uint64_t{input.hosts} * input.nics;
  items.push_back({"NIC, " + rate_text(input.nic_bps), nics});
  items.push_back(cables("leaf to NIC", input.nic_bps, nics, host_ports(design), design.leaf.down_split, nics, 1));
  if (design.tiers > 1)
    items.push_back(cables("leaf to spine", design.uplink_bps, uint64_t{design.leaf.switches} * design.leaf.up,
                           up_ports(design.leaf), design.leaf.up_split, spine_down_ports(design),
                           design.spine.down_split));
  if (design.tiers > 2)
    items.push_back(cables("spine to core", design.core_bps, uint64_t{design.spine.switches} * design.spine.up,
                           up_ports(design.spine), design.spine.up_split,
                           uint64_t{design.core.switches} * design.core.ports_used, design.core.down_split));
  return items;
}

PortsUsed ports_used(const Design& design) {
  return {host_ports(design) + up_ports(design.leaf), spine_down_ports(design) + up_ports(design.spine),
          uint64_t{design.core.switches} * design.core.ports_used};
}

std::vector<std::string> cautions(const Design& design) {
  constexpr uint32_t kMost = ORRERY_ECMP_MAX_GROUP;
  std::vector<std::string> all;
  const auto check = [&](const char* tier, const SwitchModel& model, const TierShape& shape, uint64_t below_bps,
                         uint64_t above_bps, const char* option) {
    if (shape.up <= kMost) return;
    // As many uplinks as a group holds, and a cable below at every other port.
    const uint32_t down = model.up_ports != 0 ? model.ports : model.ports - ceil_div(kMost, shape.up_split);
    const double below = static_cast<double>(down) * shape.down_split * static_cast<double>(below_bps);
    all.push_back(fmt::format(
        "a {} has {} uplinks in one equal-cost group; common switches, orrery-switch among them, hash over {} at most "
        "and would leave {} idle: take uplinks of {} or more, {} of about {:.4g}:1, {} switches with fewer ports, or "
        "switches whose groups hold {}",
        tier, shape.up, kMost, shape.up - kMost, rate_text((above_bps * shape.up + kMost - 1) / kMost), option,
        below / (kMost * static_cast<double>(above_bps)), tier, shape.up));
  };
  if (design.tiers > 1)
    check("leaf", design.input.leaf, design.leaf, design.input.nic_bps, design.uplink_bps, "--oversubscription");
  if (design.tiers > 2)
    check("spine", design.input.spine, design.spine, design.uplink_bps, design.core_bps, "--core-oversubscription");
  return all;
}

std::string cable_list(const fabric::Topology& topology) {
  static constexpr std::string_view kTiers[] = {"", "host-leaf", "leaf-spine", "spine-core"};
  struct Place {
    uint32_t tier;
    const std::vector<fabric::Port>* ports;
  };
  std::unordered_map<std::string_view, Place> nodes;
  for (const auto& spec : topology.switches) nodes[spec.name] = {spec.tier, &spec.ports};
  for (const auto& spec : topology.hosts) nodes[spec.name] = {0, &spec.nics};
  std::string out = "from_device,from_port,to_device,to_port,rate_bps,tier\n";
  for (const fabric::Cable& cable : topology.links) {
    const Place& from = nodes.at(cable.a.node);
    const auto port = std::find_if(from.ports->begin(), from.ports->end(),
                                   [&](const fabric::Port& p) { return p.name == cable.a.port; });
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{}\n", cable.a.node, cable.a.port, cable.b.node,
                   cable.b.port, port->rate_bps, kTiers[std::min(nodes.at(cable.b.node).tier, 3u)]);
  }
  return out;
}

}  // namespace orrery::planning
