#include "controller/drivers/ebpf/rule_set.h"

#include <arpa/inet.h>

#include <catch2/catch.hpp>

namespace orrery::drivers::ebpf {
namespace {

const ForwardingTable kTable{.switch_name = "leaf1", .ports = {{"p1"}, {"p2"}, {"p3"}}};

RuleSpec rule(uint32_t id, uint32_t src_mask, uint32_t dst_mask, uint16_t port_mask) {
  RuleSpec spec{
      .rule_id = id, .src_address = 0x0a000101, .src_mask = src_mask, .dst_address = 0x0a000201, .dst_mask = dst_mask};
  spec.src_port = 1000;
  spec.src_port_mask = port_mask;
  spec.protocol = 6;
  spec.protocol_mask = 0xff;
  spec.egress_port = "p1";
  spec.backup_port = "p2";
  return spec;
}

std::string refusal(const std::vector<RuleSpec>& rules) {
  const auto set = build_rule_set(kTable, rules);
  REQUIRE(!set);
  CHECK(set.error().code == ErrorCode::kRefused);
  return set.error().message;
}

}  // namespace

TEST_CASE("masks are shared, ordered from most to least specific, and applied to the rules' keys") {
  const auto set = build_rule_set(kTable, std::vector{rule(1, 0, ~0u, 0), rule(2, ~0u, ~0u, 0xffff),
                                                      rule(3, ~0u, ~0u, 0), rule(4, ~0u, 0xffffff00, 0)})
                       .value();
  REQUIRE(set.masks.size() == 4);
  CHECK(set.rules[1].key.mask_index == 0);
  CHECK(set.rules[2].key.mask_index == 1);
  CHECK(set.rules[3].key.mask_index == 2);
  CHECK(set.rules[0].key.mask_index == 3);
  CHECK(set.rules[0].key.src_address == 0);
  CHECK(set.rules[0].key.src_port == 0);
  CHECK(set.rules[1].key.src_port == htons(1000));
  CHECK(set.rules[3].key.dst_address == htonl(0x0a000200));
  CHECK(set.rules[0].value.egress_port == 0);
  CHECK(set.rules[0].value.backup_port == 1);
}

TEST_CASE("an empty rule set is a rule set") {
  const auto set = build_rule_set(kTable, {}).value();
  CHECK(set.masks.empty());
  CHECK(set.rules.empty());
}

TEST_CASE("no backup port means ECMP") {
  auto bare = rule(1, ~0u, ~0u, 0);
  bare.backup_port.clear();
  CHECK(build_rule_set(kTable, std::vector{bare}).value().rules[0].value.backup_port == ORRERY_SWITCH_NO_PORT);
}

TEST_CASE("a rule set the switch cannot hold is refused with the rule and the reason") {
  auto unknown = rule(7, ~0u, ~0u, 0), same = rule(8, ~0u, ~0u, 0);
  unknown.egress_port = "p11";
  same.backup_port = "p1";
  CHECK(refusal({unknown}).find("rule 7: switch 'leaf1' has no port 'p11', did you mean 'p1'?") == 0);
  CHECK(refusal({same}).find("rule 8: 'p1' is both") == 0);
  CHECK(refusal({rule(1, ~0u, ~0u, 0), rule(2, ~0u, ~0u, 0)}).find("rule 2: another rule") == 0);
  std::vector<RuleSpec> masks;
  for (uint32_t i = 0; i < 9; ++i) masks.push_back(rule(i, ~0u << i, ~0u, 0));
  CHECK(refusal(masks).find("rule 8: the set uses more than 8 different masks") == 0);
  masks.pop_back();
  CHECK(build_rule_set(kTable, masks));
  CHECK(refusal(std::vector<RuleSpec>(ORRERY_SWITCH_MAX_RULES + 1, rule(1, ~0u, ~0u, 0))).find("16385 rules") == 0);
}

}  // namespace orrery::drivers::ebpf
