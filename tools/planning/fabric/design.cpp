#include "tools/planning/fabric/design.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "tools/planning/fabric/counts.h"

namespace orrery::planning {
namespace {

constexpr uint32_t kMaxSplit = 8;

uint32_t split_of(uint64_t port_bps, uint64_t cable_bps) {
  return static_cast<uint32_t>(std::min<uint64_t>(port_bps / cable_bps, kMaxSplit));
}

Error cannot(std::string text) {
  return {ErrorCode::kInvalidArgument, std::move(text)};
}

// What follows from rates alone.
struct Rates {
  uint64_t uplink_bps = 0, core_bps = 0;
  uint32_t nic_split = 1, leaf_up_split = 1, spine_down_split = 1, spine_up_split = 1, core_split = 1;
};

uint64_t up_rate(const SwitchModel& model) {
  return model.up_ports != 0 ? model.up_bps : model.port_bps;
}

Rates rates_of(const DesignInput& input) {
  Rates rates;
  rates.uplink_bps = std::min(up_rate(input.leaf), input.spine.port_bps);
  rates.core_bps = std::min(up_rate(input.spine), input.core.port_bps);
  rates.nic_split = split_of(input.leaf.port_bps, input.nic_bps);
  rates.leaf_up_split = split_of(up_rate(input.leaf), rates.uplink_bps);
  rates.spine_down_split = split_of(input.spine.port_bps, rates.uplink_bps);
  rates.spine_up_split = split_of(up_rate(input.spine), rates.core_bps);
  rates.core_split = split_of(input.core.port_bps, rates.core_bps);
  return rates;
}

bool fits(const SwitchModel& model, uint32_t down_ports, uint32_t up_ports) {
  if (model.up_ports != 0) return down_ports <= model.ports && up_ports <= model.up_ports;
  return uint64_t{down_ports} + up_ports <= model.ports;
}

class Designer {
 public:
  explicit Designer(const DesignInput& input)
      : input_(input),
        rates_(rates_of(input)),
        nics_per_leaf_(input.rails ? 1 : input.nics),
        leaves_per_group_(input.rails ? input.nics : 1),
        wanted_(static_cast<uint64_t>(std::ceil(input.hosts * (1 + input.spare) - 1e-6))) {}

  // Nothing: not with so many tiers.
  std::optional<Design> with_tiers(uint32_t tiers) const {
    if (tiers == 1) return single_leaf();
    const uint32_t most = most_seats_per_leaf();
    if (most == 0) return std::nullopt;
    const uint64_t groups = (wanted_ + most - 1) / most;
    if (groups * leaves_per_group_ > UINT32_MAX / 2) return std::nullopt;
    return tiers == 2 ? two_tiers(static_cast<uint32_t>(groups)) : three_tiers(static_cast<uint32_t>(groups));
  }

  // Hosts, room for more of them beside.
  uint64_t reach(uint32_t tiers) const {
    double seats = 0;
    if (tiers == 1) {
      seats = single_leaf_seats();
    } else {
      const double groups = tiers == 2 ? std::floor(static_cast<double>(spine_room()) / leaves_per_group_)
                                       : static_cast<double>(core_room()) * (most_leaves_per_pod() / leaves_per_group_);
      seats = groups * most_seats_per_leaf();
    }
    return static_cast<uint64_t>(seats / (1 + input_.spare) + 1e-6);
  }

  uint32_t most_seats_per_leaf() const {
    uint32_t seats = 0;
    while (leaf_fits(seats + 1, uplinks_for(seats + 1))) ++seats;
    return seats;
  }

 private:
  uint32_t uplinks_for(uint32_t seats) const {
    return cables_for(static_cast<double>(seats) * nics_per_leaf_ * static_cast<double>(input_.nic_bps),
                      input_.oversubscription, rates_.uplink_bps);
  }

  uint32_t host_ports(uint32_t seats) const { return ceil_div(uint64_t{seats} * nics_per_leaf_, rates_.nic_split); }

  bool leaf_fits(uint32_t seats, uint32_t uplinks) const {
    return fits(input_.leaf, host_ports(seats), ceil_div(uplinks, rates_.leaf_up_split));
  }

  uint32_t core_cables_for(uint32_t spine_down) const {
    return cables_for(static_cast<double>(spine_down) * static_cast<double>(rates_.uplink_bps),
                      input_.core_oversubscription, rates_.core_bps);
  }

  bool spine_fits(uint32_t down, uint32_t up) const {
    return fits(input_.spine, ceil_div(down, rates_.spine_down_split), ceil_div(up, rates_.spine_up_split));
  }

  // Cables from leaves that a spine takes when there is nothing above it.
  uint32_t spine_room() const { return input_.spine.ports * rates_.spine_down_split; }
  uint32_t core_room() const { return input_.core.all_ports() * rates_.core_split; }
  uint32_t single_leaf_seats() const {
    return leaves_per_group_ == 1 ? input_.leaf.ports * rates_.nic_split / nics_per_leaf_ : 0;
  }

  // A multiple of the leaves of a group.
  uint32_t most_leaves_per_pod() const {
    uint32_t groups = 0;
    const auto room = [&](uint32_t more) {
      const uint32_t leaves = more * leaves_per_group_;
      return spine_fits(leaves, core_cables_for(leaves));
    };
    while (room(groups + 1)) ++groups;
    return groups * leaves_per_group_;
  }

  Design begin(uint32_t tiers) const {
    Design design;
    design.input = input_;
    design.tiers = tiers;
    return design;
  }

  std::optional<Design> single_leaf() const {
    if (wanted_ > single_leaf_seats()) return std::nullopt;
    Design design = begin(1);
    design.seats = design.seats_per_leaf = static_cast<uint32_t>(wanted_);
    design.leaf = {.switches = 1, .down = design.seats * nics_per_leaf_, .down_split = rates_.nic_split};
    design.leaf.ports_used = host_ports(design.seats);
    return design;
  }

  void set_leaves(Design& design, uint32_t groups) const {
    design.seats_per_leaf = ceil_div(wanted_, groups);
    design.seats = design.seats_per_leaf * groups;
    design.uplink_bps = rates_.uplink_bps;
    design.leaf = {.switches = groups * leaves_per_group_,
                   .down = design.seats_per_leaf * nics_per_leaf_,
                   .down_split = rates_.nic_split,
                   .up_split = rates_.leaf_up_split};
    design.spine.down_split = rates_.spine_down_split;
  }

  // As few spines as take the leaves of a pod, each with as many cables to each. False: they do not fit.
  template <typename SpineFits>
  bool set_spines(Design& design, uint32_t room, SpineFits takes) const {
    const uint32_t leaves = design.leaves_per_pod, least = uplinks_for(design.seats_per_leaf);
    for (const uint32_t least_spines : {std::max(1u, input_.min_spines), 1u})
      for (uint32_t most = std::min(room / leaves, least); most > 0; --most) {
        const uint32_t spines = std::max(least_spines, ceil_div(least, most)), cables = ceil_div(least, spines);
        if (!leaf_fits(design.seats_per_leaf, spines * cables) || !takes(leaves * cables)) continue;
        design.cables_per_spine = cables;
        design.leaf.up = spines * cables;
        design.leaf.ports_used = host_ports(design.seats_per_leaf) + ceil_div(design.leaf.up, rates_.leaf_up_split);
        design.spine.switches = spines * design.pods;
        design.spine.down = leaves * cables;
        design.oversubscription = static_cast<double>(design.leaf.down) * static_cast<double>(input_.nic_bps) /
                                  (static_cast<double>(design.leaf.up) * static_cast<double>(rates_.uplink_bps));
        return true;
      }
    return false;
  }

  std::optional<Design> two_tiers(uint32_t groups) const {
    if (uint64_t{groups} * leaves_per_group_ > spine_room()) return std::nullopt;
    Design design = begin(2);
    set_leaves(design, groups);
    design.leaves_per_pod = design.leaf.switches;
    if (!set_spines(design, spine_room(), [](uint32_t) { return true; })) return std::nullopt;
    design.spine.ports_used = ceil_div(design.spine.down, rates_.spine_down_split);
    return design;
  }

  std::optional<Design> three_tiers(uint32_t groups) const {
    const uint32_t most = most_leaves_per_pod() / leaves_per_group_;
    if (most == 0 || ceil_div(groups, most) > core_room()) return std::nullopt;
    Design design = begin(3);
    set_leaves(design, groups);
    const uint32_t groups_per_pod = ceil_div(groups, ceil_div(groups, most));
    design.pods = ceil_div(groups, groups_per_pod);
    design.leaves_per_pod = groups_per_pod * leaves_per_group_;
    const auto takes = [&](uint32_t down) { return spine_fits(down, core_cables_for(down)); };
    if (!set_spines(design, input_.spine.all_ports() * rates_.spine_down_split, takes) || !set_cores(design))
      return std::nullopt;
    return design;
  }

  bool set_cores(Design& design) const {
    const uint32_t least = core_cables_for(design.spine.down);
    for (uint32_t most = std::min(core_room() / design.pods, least); most > 0; --most) {
      const uint32_t cores = ceil_div(least, most), cables = ceil_div(least, cores);
      if (!spine_fits(design.spine.down, cores * cables)) continue;
      design.cables_per_core = cables;
      design.core_bps = rates_.core_bps;
      design.spine.up = cores * cables;
      design.spine.up_split = rates_.spine_up_split;
      design.spine.ports_used =
          ceil_div(design.spine.down, rates_.spine_down_split) + ceil_div(design.spine.up, rates_.spine_up_split);
      design.core = {.switches = cores * design.spines_per_pod(),
                     .down = design.pods * cables,
                     .down_split = rates_.core_split,
                     .ports_used = ceil_div(design.pods * cables, rates_.core_split)};
      design.core_oversubscription = static_cast<double>(design.spine.down) * static_cast<double>(rates_.uplink_bps) /
                                     (static_cast<double>(design.spine.up) * static_cast<double>(rates_.core_bps));
      return true;
    }
    return false;
  }

  const DesignInput& input_;
  Rates rates_;
  uint32_t nics_per_leaf_;     // of a host
  uint32_t leaves_per_group_;  // hosts of a group have NICs under all its leaves
  uint64_t wanted_;            // hosts with the spare ones
};

Status check_rates(const DesignInput& input) {
  if (input.leaf.port_bps < input.nic_bps)
    return cannot(fmt::format("a NIC of {} does not fit into a leaf port of {}; take faster leaf ports or slower NICs",
                              rate_text(input.nic_bps), rate_text(input.leaf.port_bps)));
  return {};
}

Status check_input(const DesignInput& input) {
  if (input.hosts == 0 || input.hosts > fabric::kMaxHosts)
    return cannot(fmt::format("{} hosts; a fabric has 1 to {}", input.hosts, fabric::kMaxHosts));
  if (input.nics == 0 || input.nics > fabric::kMaxHostNics)
    return cannot(fmt::format("{} NICs; a host has 1 to {}", input.nics, fabric::kMaxHostNics));
  return check_rates(input);
}

// The smallest change that would do, in words.
std::string cure(const DesignInput& input) {
  std::vector<std::string> ways;
  for (const double ratio : {1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0}) {
    DesignInput other = input;
    other.oversubscription = ratio;
    other.core_oversubscription = std::max(ratio, input.core_oversubscription);
    if (ratio <= input.oversubscription || !Designer(other).with_tiers(3)) continue;
    ways.push_back(fmt::format("an oversubscription of {}:1 in leaves and spines", ratio));
    break;
  }
  for (uint32_t factor = 2; uint64_t{input.leaf.ports} * factor <= fabric::kMaxSwitchPorts; factor *= 2) {
    DesignInput other = input;
    for (SwitchModel* model : {&other.leaf, &other.spine, &other.core}) {
      model->ports *= factor;
      model->up_ports *= factor;
    }
    if (!Designer(other).with_tiers(3)) continue;
    ways.push_back(fmt::format("switches of {} ports", other.leaf.all_ports()));
    break;
  }
  if (ways.empty()) return "take faster switch ports, fewer hosts or fewer NICs";
  return fmt::format("{} would do", fmt::join(ways, ", or "));
}

Error too_many(const DesignInput& input, uint32_t tiers) {
  const Designer designer(input);
  if (designer.most_seats_per_leaf() == 0 && tiers > 1)
    return cannot(fmt::format(
        "a leaf of {} has no room for the {} of one host and their uplinks at {}:1; take leaves "
        "with more ports, or --rails to give each NIC a leaf of its own",
        name_of(input.leaf), input.nics == 1 ? "NIC" : fmt::format("{} NICs", input.nics), input.oversubscription));
  const std::string asked =
      fmt::format("{} hosts{} with {} under leaves of {}", input.hosts,
                  input.spare > 0 ? fmt::format(" and {:.0f} % more", input.spare * 100) : "",
                  input.nics == 1 ? "one NIC" : fmt::format("{} NICs", input.nics), name_of(input.leaf));
  for (uint32_t more = tiers + 1; more <= 3; ++more)
    if (designer.with_tiers(more))
      return cannot(fmt::format("{} need {} tiers: {} {} {} hosts; give --tiers {} or leave it out", asked,
                                more == 2 ? "two" : "three", tiers == 1 ? "one" : "two",
                                tiers == 1 ? "reaches" : "reach", designer.reach(tiers), more));
  return cannot(fmt::format("{} are more than {} reach, which is {}; {}", asked,
                            tiers == 1   ? "one tier can"
                            : tiers == 2 ? "two tiers"
                                         : "three tiers",
                            designer.reach(tiers), cure(input)));
}

}  // namespace

Result<Design> design(const DesignInput& input) {
  ORRERY_TRY(check_input(input));
  const Designer designer(input);
  for (uint32_t tiers = input.tiers == 0 ? 1 : input.tiers; tiers <= (input.tiers == 0 ? 3 : input.tiers); ++tiers)
    if (const auto found = designer.with_tiers(tiers)) return *found;
  return too_many(input, input.tiers == 0 ? 3 : input.tiers);
}

Result<SwitchModel> parse_switch_model(const std::string& text) {
  SwitchModel model;
  uint32_t ports = 0, up_ports = 0;
  double rate = 0, up_rate_g = 0;
  int used = -1, used_up = -1;
  // The first part always; the second when something follows.
  (void)std::sscanf(text.c_str(), "%5ux%9lfG%n", &ports, &rate, &used);
  if (used > 0 && static_cast<size_t>(used) != text.size())
    (void)std::sscanf(text.c_str() + used, "+%5ux%9lfG%n", &up_ports, &up_rate_g, &used_up);
  const bool whole = used > 0 && (static_cast<size_t>(used) == text.size() ||
                                  (used_up > 0 && static_cast<size_t>(used + used_up) == text.size()));
  const auto good = [](uint32_t count, double g) {
    return count >= 1 && count <= fabric::kMaxSwitchPorts && g >= 0.001 && g <= 10'000;
  };
  if (!whole || !good(ports, rate) || (used_up > 0 && !good(up_ports, up_rate_g)))
    return cannot(fmt::format(
        "'{}' is no switch: write its ports as 64x400G, or 48x100G+8x400G when some are for uplinks only", text));
  model.ports = ports;
  model.port_bps = static_cast<uint64_t>(std::llround(rate * 1e9));
  model.up_ports = up_ports;
  model.up_bps = static_cast<uint64_t>(std::llround(up_rate_g * 1e9));
  return model;
}

std::string name_of(const SwitchModel& model) {
  std::string name = fmt::format("{}x{}", model.ports, rate_text(model.port_bps));
  if (model.up_ports != 0) name += fmt::format("+{}x{}", model.up_ports, rate_text(model.up_bps));
  return name;
}

}  // namespace orrery::planning
