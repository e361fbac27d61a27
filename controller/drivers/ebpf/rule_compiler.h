// Flows with paths -> rules per switch. Pure.
//
// Only switches that have a choice get rules. Both directions are covered: the answers of a flow (the acknowledgements
// of TCP) take its links backwards, unless a flow planned for that direction says otherwise. One rule per ordered pair
// of addresses and protocol carries all connections of the pair; a live flow (its ports are known) whose way differs
// from its pair's gets a rule of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "controller/drivers/driver.h"
#include "controller/fabric/graph.h"

namespace orrery::drivers::ebpf {

struct CompiledRule {
  FiveTuple match;
  FiveTuple mask;  // bits that count, as in switch_link.h
  fabric::LinkId egress = fabric::kNone;
  fabric::LinkId backup = fabric::kNone;  // kNone: ECMP
  bool answers = false;                   // carries only the answers of flows planned for the other direction
};

struct TableLimits {
  uint32_t rules = 0;
  uint32_t masks = 0;
};

// Rules of each switch, by node; most specific mask first, in the order of their flows within a mask.
using CompiledPlan = std::map<fabric::NodeId, std::vector<CompiledRule>>;

// `limits` is asked once per switch that gets rules. To fit, rules of pairs with one destination and one way are
// merged. kExhausted names the switch whose table is too small even so. Flows without a path, and with addresses that
// are not IPv4 or no host's, get no rules.
Result<CompiledPlan> compile_rules(const fabric::Graph& fabric, const std::vector<Flow>& flows,
                                   const std::function<TableLimits(fabric::NodeId)>& limits);

bool matches(const CompiledRule& rule, const FiveTuple& tuple);

// The egress link `tuple` takes at switch `at` with these rules and the fabric's link state, and the rule that decides,
// if one does. No link: no member of the group is up.
struct Hop {
  std::optional<fabric::LinkId> egress;
  const CompiledRule* rule = nullptr;
};
Hop next_hop(const fabric::Graph& fabric, const CompiledPlan& plan, fabric::NodeId at, const FiveTuple& tuple,
             const fabric::Nic& dst);

}  // namespace orrery::drivers::ebpf
