// A rule set as the data plane wants it, made from port names and arbitrary masks. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/abi/switch_abi.h"
#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "controller/drivers/ebpf/forwarding_table.h"

namespace orrery::drivers::ebpf {

// One rule as the controller states it. Address masks are IPv4 in host byte order; a zero mask matches everything.
struct RuleSpec {
  uint32_t rule_id = 0;
  uint32_t src_address = 0, src_mask = 0;
  uint32_t dst_address = 0, dst_mask = 0;
  uint16_t src_port = 0, src_port_mask = 0;
  uint16_t dst_port = 0, dst_port_mask = 0;
  uint8_t protocol = 0, protocol_mask = 0;
  std::string egress_port;
  std::string backup_port;  // "": ECMP is the backup

  friend bool operator==(const RuleSpec&, const RuleSpec&) = default;
};

struct BinaryRule {
  orrery_switch_tuple key{};   // masked, with mask_index; `set` is the data plane's business
  orrery_switch_rule value{};  // counter_slot likewise
};

struct BinaryRuleSet {
  uint64_t term = 0;
  uint64_t revision = 0;
  std::vector<orrery_switch_tuple> masks;  // most specific first
  std::vector<BinaryRule> rules;
};

// kRefused, with the rule's id and what is wrong: unknown port, egress and backup the same port, two rules for the same
// packets, more masks or rules than the data plane holds.
Result<BinaryRuleSet> build_rule_set(const ForwardingTable& table, std::span<const RuleSpec> rules);

// The five-tuple in the byte order of the maps; ports 0 where the data plane sees none.
orrery_switch_tuple to_wire_order(const RuleSpec& rule);
orrery_switch_tuple mask_of(const RuleSpec& rule);

}  // namespace orrery::drivers::ebpf
