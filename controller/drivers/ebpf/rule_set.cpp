#include "controller/drivers/ebpf/rule_set.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_set>

#include "common/base/nearest_name.h"

namespace orrery::drivers::ebpf {
namespace {

Error refuse(uint32_t rule_id, const std::string& what) {
  return {ErrorCode::kRefused, fmt::format("rule {}: {}", rule_id, what)};
}

bool same(const orrery_switch_tuple& a, const orrery_switch_tuple& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

int specificity(const orrery_switch_tuple& mask) {
  return std::popcount(mask.src_address) + std::popcount(mask.dst_address) + std::popcount(mask.src_port) +
         std::popcount(mask.dst_port) + std::popcount(mask.protocol);
}

Result<std::vector<orrery_switch_tuple>> collect_masks(std::span<const RuleSpec> rules) {
  std::vector<orrery_switch_tuple> masks;
  for (const auto& rule : rules) {
    const auto mask = mask_of(rule);
    if (std::none_of(masks.begin(), masks.end(), [&](const auto& known) { return same(known, mask); }))
      masks.push_back(mask);
    if (masks.size() > ORRERY_SWITCH_MAX_MASKS)
      return refuse(
          rule.rule_id,
          fmt::format("the set uses more than {} different masks; aggregate rules or use fewer kinds of match",
                      ORRERY_SWITCH_MAX_MASKS));
  }
  std::stable_sort(masks.begin(), masks.end(),
                   [](const auto& a, const auto& b) { return specificity(a) > specificity(b); });
  return masks;
}

Result<uint8_t> resolve_port(const ForwardingTable& table, uint32_t rule_id, std::string_view name) {
  if (const auto port = table.find_port(name)) return *port;
  std::vector<std::string_view> names;
  for (const auto& port : table.ports) names.push_back(port.name);
  return refuse(rule_id,
                fmt::format("switch '{}' has no port '{}'{}", table.switch_name, name, did_you_mean(name, names)));
}

Result<BinaryRule> resolve(const ForwardingTable& table, const RuleSpec& rule,
                           const std::vector<orrery_switch_tuple>& masks) {
  BinaryRule binary;
  const auto mask = mask_of(rule);
  binary.key = to_wire_order(rule);
  binary.key.mask_index = static_cast<uint8_t>(
      std::find_if(masks.begin(), masks.end(), [&](const auto& m) { return same(m, mask); }) - masks.begin());
  binary.value.rule_id = rule.rule_id;
  ORRERY_ASSIGN(binary.value.egress_port, resolve_port(table, rule.rule_id, rule.egress_port));
  binary.value.backup_port = ORRERY_SWITCH_NO_PORT;
  if (!rule.backup_port.empty()) {
    ORRERY_ASSIGN(binary.value.backup_port, resolve_port(table, rule.rule_id, rule.backup_port));
    if (binary.value.backup_port == binary.value.egress_port)
      return refuse(rule.rule_id,
                    fmt::format("'{}' is both the egress and the backup port; leave the backup empty for ECMP",
                                rule.egress_port));
  }
  return binary;
}

}  // namespace

orrery_switch_tuple mask_of(const RuleSpec& rule) {
  orrery_switch_tuple mask{};
  mask.src_address = htonl(rule.src_mask);
  mask.dst_address = htonl(rule.dst_mask);
  mask.src_port = htons(rule.src_port_mask);
  mask.dst_port = htons(rule.dst_port_mask);
  mask.protocol = rule.protocol_mask;
  return mask;
}

orrery_switch_tuple to_wire_order(const RuleSpec& rule) {
  orrery_switch_tuple key{};
  key.src_address = htonl(rule.src_address & rule.src_mask);
  key.dst_address = htonl(rule.dst_address & rule.dst_mask);
  key.src_port = htons(rule.src_port & rule.src_port_mask);
  key.dst_port = htons(rule.dst_port & rule.dst_port_mask);
  key.protocol = rule.protocol & rule.protocol_mask;
  return key;
}

Result<BinaryRuleSet> build_rule_set(const ForwardingTable& table, std::span<const RuleSpec> rules) {
  if (rules.size() > ORRERY_SWITCH_MAX_RULES)
    return Error{ErrorCode::kRefused, fmt::format("{} rules; switch '{}' holds {}", rules.size(), table.switch_name,
                                                  ORRERY_SWITCH_MAX_RULES)};
  BinaryRuleSet set;
  ORRERY_ASSIGN(set.masks, collect_masks(rules));
  std::unordered_set<std::string_view> keys;
  set.rules.reserve(rules.size());  // keys point into it
  for (const auto& rule : rules) {
    ORRERY_ASSIGN(auto binary, resolve(table, rule, set.masks));
    set.rules.push_back(binary);
    const auto& key = set.rules.back().key;
    if (!keys.emplace(reinterpret_cast<const char*>(&key), sizeof(key)).second)
      return refuse(rule.rule_id, "another rule of the set matches exactly the same packets");
  }
  return set;
}

}  // namespace orrery::drivers::ebpf
