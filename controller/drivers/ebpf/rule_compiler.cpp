#include "controller/drivers/ebpf/rule_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "common/abi/ecmp_hash_abi.h"

namespace orrery::drivers::ebpf {
namespace {

struct Decision {
  fabric::LinkId egress = fabric::kNone;
  fabric::LinkId backup = fabric::kNone;
  friend auto operator<=>(const Decision&, const Decision&) = default;
};

struct Candidate {
  FiveTuple tuple;
  bool planned = true;  // false: the answers of a flow planned for the other direction
  Decision decision;
  bool born() const { return tuple.src_port != 0 && tuple.dst_port != 0; }
};

using Pair = std::tuple<IpAddress, IpAddress, uint8_t>;
using Demands = std::map<fabric::NodeId, std::map<Pair, std::vector<Candidate>>>;

IpAddress all_ones() {
  std::array<uint8_t, 16> bytes;
  bytes.fill(0xff);
  return IpAddress::from_bytes(bytes.data());
}

FiveTuple exact_mask() {
  return {all_ones(), all_ones(), 0xffff, 0xffff, 0xff};
}
FiveTuple pair_mask() {
  return {all_ones(), all_ones(), 0, 0, 0xff};
}
FiveTuple destination_mask() {
  return {IpAddress(), all_ones(), 0, 0, 0xff};
}

fabric::Path reverse_path(const fabric::Graph& fabric, const fabric::Path& path) {
  fabric::Path reversed;
  for (auto link = path.rbegin(); link != path.rend(); ++link) reversed.push_back(fabric.link(*link).reverse);
  return reversed;
}

// Where the first backup path leaves `at` by another link.
fabric::LinkId backup_at(const fabric::Graph& fabric, const std::vector<fabric::Path>& backups, fabric::LinkId egress) {
  for (const auto& path : backups)
    for (const auto link : path)
      if (link != egress && fabric.link(link).from == fabric.link(egress).from) return link;
  return fabric::kNone;
}

void add_direction(const fabric::Graph& fabric, const Candidate& flow, const fabric::Path& path,
                   const std::vector<fabric::Path>& backups, Demands& demands) {
  const fabric::Nic* dst = fabric.find_nic(flow.tuple.dst);
  for (const auto link : path) {
    const auto at = fabric.link(link).from;
    if (fabric.node(at).kind != fabric::NodeKind::kSwitch) continue;
    const auto group = fabric.next_hops(at, *dst);
    if (group.size() == 1 && group[0] == link) continue;
    Candidate candidate = flow;
    candidate.decision = {link, backup_at(fabric, backups, link)};
    demands[at][{flow.tuple.src, flow.tuple.dst, flow.tuple.protocol}].push_back(candidate);
  }
}

Demands collect(const fabric::Graph& fabric, const std::vector<Flow>& flows) {
  Demands demands;
  for (const auto& flow : flows) {
    if (flow.path.empty() || !flow.src.v4() || !flow.dst.v4() || !fabric.find_nic(flow.src) ||
        !fabric.find_nic(flow.dst))
      continue;
    const bool born = flow.tuple.src_port != 0 && flow.tuple.dst_port != 0;
    Candidate candidate{{flow.src, flow.dst, born ? flow.tuple.src_port : uint16_t{0},
                         born ? flow.tuple.dst_port : uint16_t{0}, flow.protocol}};
    add_direction(fabric, candidate, flow.path, flow.backups, demands);
    std::vector<fabric::Path> reversed_backups;
    for (const auto& backup : flow.backups) reversed_backups.push_back(reverse_path(fabric, backup));
    candidate.tuple = candidate.tuple.reversed();
    candidate.planned = false;
    add_direction(fabric, candidate, reverse_path(fabric, flow.path), reversed_backups, demands);
  }
  return demands;
}

// The pair's common way: what was planned for it as a whole, else what was planned for one of its flows, else its
// answers' way.
const Candidate& common_way(const std::vector<Candidate>& candidates) {
  const auto rank = [](const Candidate& candidate) {
    return candidate.planned ? (candidate.born() ? 1 : 0) : (candidate.born() ? 3 : 2);
  };
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

struct SwitchRules {
  std::vector<CompiledRule> exact;
  std::vector<CompiledRule> pairs;
};

// Whether a planned flow has `answer`'s packets too: a connection carries data both ways, and the answers of one
// direction are the other's own data.
bool is_planned_itself(const Candidate& answer, const std::vector<Candidate>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
    return other.planned && (!other.born() || other.tuple == answer.tuple);
  });
}

SwitchRules rules_of(const std::map<Pair, std::vector<Candidate>>& pairs) {
  SwitchRules rules;
  std::set<FiveTuple> seen;
  for (const auto& [pair, candidates] : pairs) {
    const auto& common = common_way(candidates);
    FiveTuple match = common.tuple;
    match.src_port = match.dst_port = 0;
    rules.pairs.push_back({match, pair_mask(), common.decision.egress, common.decision.backup, !common.planned});
    for (const auto& candidate : candidates) {
      if (!candidate.born() || candidate.decision == common.decision) continue;
      if (!candidate.planned && is_planned_itself(candidate, candidates)) continue;
      if (seen.insert(candidate.tuple).second)
        rules.exact.push_back(
            {candidate.tuple, exact_mask(), candidate.decision.egress, candidate.decision.backup, !candidate.planned});
    }
  }
  return rules;
}

// One rule for all pairs with the same destination and protocol, where they agree; the others stay.
std::vector<CompiledRule> merge_by_destination(const std::vector<CompiledRule>& pairs) {
  std::map<std::tuple<IpAddress, uint8_t>, std::set<Decision>> ways;
  for (const auto& rule : pairs) ways[{rule.match.dst, rule.match.protocol}].insert({rule.egress, rule.backup});
  std::vector<CompiledRule> kept, merged;
  std::set<std::tuple<IpAddress, uint8_t>> done;
  for (const auto& rule : pairs) {
    const std::tuple key{rule.match.dst, rule.match.protocol};
    if (ways[key].size() > 1) {
      kept.push_back(rule);
    } else if (done.insert(key).second) {
      FiveTuple match;
      match.dst = rule.match.dst;
      match.protocol = rule.match.protocol;
      merged.push_back({match, destination_mask(), rule.egress, rule.backup});
    }
  }
  kept.insert(kept.end(), merged.begin(), merged.end());
  return kept;
}

size_t count_masks(const std::vector<CompiledRule>& rules) {
  std::set<FiveTuple> masks;
  for (const auto& rule : rules) masks.insert(rule.mask);
  return masks.size();
}

Result<std::vector<CompiledRule>> fit(const std::string& name, SwitchRules rules, TableLimits limits) {
  if (rules.exact.size() + rules.pairs.size() > limits.rules) rules.pairs = merge_by_destination(rules.pairs);
  std::vector<CompiledRule> all = std::move(rules.exact);
  all.insert(all.end(), rules.pairs.begin(), rules.pairs.end());
  if (all.size() > limits.rules)
    return Error{ErrorCode::kExhausted, fmt::format("switch {} needs {} rules for this plan; its table holds {}", name,
                                                    all.size(), limits.rules)};
  if (const size_t masks = count_masks(all); masks > limits.masks)
    return Error{ErrorCode::kExhausted,
                 fmt::format("switch {} needs {} kinds of match for this plan; it has {}", name, masks, limits.masks)};
  return all;
}

IpAddress mask_address(const IpAddress& address, const IpAddress& mask) {
  std::array<uint8_t, 16> bytes = address.bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] &= mask.bytes()[i];
  return IpAddress::from_bytes(bytes.data());
}

}  // namespace

Result<CompiledPlan> compile_rules(const fabric::Graph& fabric, const std::vector<Flow>& flows,
                                   const std::function<TableLimits(fabric::NodeId)>& limits) {
  CompiledPlan plan;
  for (const auto& [at, pairs] : collect(fabric, flows)) {
    ORRERY_ASSIGN(plan[at], fit(fabric.node(at).name, rules_of(pairs), limits(at)));
  }
  return plan;
}

bool matches(const CompiledRule& rule, const FiveTuple& tuple) {
  const FiveTuple masked{mask_address(tuple.src, rule.mask.src), mask_address(tuple.dst, rule.mask.dst),
                         static_cast<uint16_t>(tuple.src_port & rule.mask.src_port),
                         static_cast<uint16_t>(tuple.dst_port & rule.mask.dst_port),
                         static_cast<uint8_t>(tuple.protocol & rule.mask.protocol)};
  return masked == rule.match;
}

Hop next_hop(const fabric::Graph& fabric, const CompiledPlan& plan, fabric::NodeId at, const FiveTuple& tuple,
             const fabric::Nic& dst) {
  Hop hop;
  if (const auto rules = plan.find(at); rules != plan.end()) {
    const auto found = std::find_if(rules->second.begin(), rules->second.end(),
                                    [&](const auto& rule) { return matches(rule, tuple); });
    if (found != rules->second.end()) hop.rule = &*found;
  }
  const auto up = [&](fabric::LinkId link) { return link != fabric::kNone && fabric.link(link).up; };
  if (hop.rule && (up(hop.rule->egress) || up(hop.rule->backup))) {
    hop.egress = up(hop.rule->egress) ? hop.rule->egress : hop.rule->backup;
    return hop;
  }
  const auto group = fabric.next_hops(at, dst);
  const auto src_v4 = tuple.src.v4(), dst_v4 = tuple.dst.v4();
  if (group.empty() || group.size() > ORRERY_ECMP_MAX_GROUP || !src_v4 || !dst_v4) return hop;
  uint64_t live = 0;
  for (size_t i = 0; i < group.size(); ++i) live |= static_cast<uint64_t>(fabric.link(group[i]).up) << i;
  const uint32_t hash =
      orrery_ecmp_hash(fabric.node(at).hash_seed, *src_v4, *dst_v4, tuple.src_port, tuple.dst_port, tuple.protocol);
  const uint32_t member = orrery_ecmp_live_member(hash, static_cast<uint32_t>(group.size()), live);
  if (member != ORRERY_ECMP_NO_MEMBER) hop.egress = group[member];
  return hop;
}

}  // namespace orrery::drivers::ebpf
