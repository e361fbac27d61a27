// How many switches of which tier a fabric needs: from hosts, NICs, switches and the oversubscription that is wanted.
//
// One leaf where all hosts fit under it, else leaves and spines, else pods of these with cores above. The fewest
// switches are taken that leave `min_spines` (a single one could not be lost). `spare` is room to grow: leaves, spines
// and cores are for that many more hosts, whose ports stay empty, so that adding them moves no cable. A switch port
// that is faster than what is plugged into it is split (breakout cable), into eight at most.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "tools/planning/fabric/clos.h"

namespace orrery::planning {

// `up_ports` 0: every port takes a host or a cable upwards. Else `ports` are for what is below, `up_ports` for what is
// above.
struct SwitchModel {
  uint32_t ports = 64;
  uint64_t port_bps = 400'000'000'000;
  uint32_t up_ports = 0;
  uint64_t up_bps = 0;

  uint32_t all_ports() const { return ports + up_ports; }
  bool operator==(const SwitchModel&) const = default;
};
// "64x400G", "48x100G+8x400G". Errors: kInvalidArgument.
Result<SwitchModel> parse_switch_model(const std::string& text);
std::string name_of(const SwitchModel& model);

struct DesignInput {
  uint32_t hosts = 0;
  uint32_t nics = 1;  // of each host
  uint64_t nic_bps = 400'000'000'000;
  SwitchModel leaf, spine, core;
  double oversubscription = 1;  // of every leaf, at most: rate of its NICs / rate of its uplinks
  double core_oversubscription = 1;
  double spare = 0.2;
  bool rails = false;       // NIC i of the hosts of one group under leaf i of that group, else all NICs under one leaf
  uint32_t tiers = 0;       // 0: as few as it takes
  uint32_t min_spines = 2;  // of a pod, where a leaf has as many uplinks
};

// Ports and cables of one switch of a tier; cables of a split port count each.
struct TierShape {
  uint32_t switches = 0;
  uint32_t down = 0;  // room for cables from below
  uint32_t up = 0;
  uint32_t down_split = 1;  // cables that share one of its ports
  uint32_t up_split = 1;
  uint32_t ports_used = 0;  // of one, with every host there is room for
};

struct Design {
  DesignInput input;
  uint32_t tiers = 1;
  uint32_t pods = 1;
  uint32_t leaves_per_pod = 1;  // in the last pod perhaps fewer
  uint32_t seats = 0;           // hosts there is room for
  uint32_t seats_per_leaf = 0;
  uint32_t cables_per_spine = 0, cables_per_core = 0;  // of a leaf to each spine, of a spine to each core
  uint64_t uplink_bps = 0, core_bps = 0;
  TierShape leaf, spine, core;
  double oversubscription = 0;       // of a leaf with every seat taken
  double core_oversubscription = 0;  // of a spine; 0 with less than three tiers

  uint32_t spines_per_pod() const { return pods == 0 ? 0 : spine.switches / pods; }
  uint32_t groups() const { return input.rails ? leaf.switches / input.nics : leaf.switches; }
};

// Errors: kInvalidArgument says what cannot be met, how far it would go, and what would do.
Result<Design> design(const DesignInput& input);

// The hosts of the input dealt evenly to the leaves.
Clos clos_of(const Design& design, const std::string& name);

// What is lost with one part, at worst.
struct Loss {
  std::string part;             // "one spine"
  std::string affected;         // "every leaf"
  double lost = 0;              // share of what those had
  uint64_t left_bps = 0;        // for each of those
  double oversubscription = 0;  // then; 0 where it has no meaning
};
std::vector<Loss> losses(const Design& design);

struct BillItem {
  std::string item;
  uint64_t count = 0;
};
std::vector<BillItem> bill(const Design& design);

// Ports of all switches of a tier that are in use with the hosts of the input.
struct PortsUsed {
  uint64_t leaf = 0, spine = 0, core = 0;
};
PortsUsed ports_used(const Design& design);

// What can be built but will not work as it looks, each with its cure: more uplinks in one equal-cost group than common
// switches hash over. Empty: nothing.
std::vector<std::string> cautions(const Design& design);

// A CSV with a line per cable: from_device,from_port,to_device,to_port,rate_bps,tier.
std::string cable_list(const fabric::Topology& topology);

}  // namespace orrery::planning
