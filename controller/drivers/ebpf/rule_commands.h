// What orrery-switch does with a controller's commands: checks them, changes the rules, answers. No I/O besides the
// RuleStore's maps.
//
// Fencing: a command of a lower term than the switch has seen is refused; within a term a lower revision too, except
// the one that the rules in force replaced (a controller that takes a plan back).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/msg/switch_messages.h"
#include "controller/drivers/ebpf/forwarding_table.h"
#include "controller/drivers/ebpf/rule_set.h"
#include "controller/drivers/ebpf/rule_store.h"

namespace orrery::drivers::ebpf {

// What the switch remembers of whom it obeyed.
class Fence {
 public:
  Fence(uint64_t term, uint64_t revision) : term_(term), revision_(revision) {}
  // kRefused, with both numbers.
  Status check(uint64_t term, uint64_t revision) const;
  void advance(uint64_t term, uint64_t revision);
  uint64_t term() const { return term_; }
  uint64_t revision() const { return revision_; }

 private:
  uint64_t term_;
  uint64_t revision_;
  std::deque<uint64_t> replaced_;  // the last revisions of the same term
};

// kRefused: not IPv4, or the addresses' masks are not masks of IPv4.
Result<RuleSpec> to_rule_spec(const msg::Rule& rule);

class RuleCommands {
 public:
  // Both outlive this.
  RuleCommands(const ForwardingTable& table, RuleStore& store);

  // The answer, if the command wants one. `now_ns`: CLOCK_MONOTONIC.
  std::optional<msg::Ack> handle(const msg::SwitchCommand& command, uint64_t now_ns);

 private:
  Status replace(const msg::RuleSet& rules, uint64_t now_ns);
  Status renew(const msg::Lease& lease, uint64_t now_ns);
  Status withdraw(const msg::Lease& lease);
  msg::Ack answer(uint64_t term, uint64_t revision, const Status& outcome) const;

  const ForwardingTable& table_;
  RuleStore& store_;
  Fence fence_;
};

}  // namespace orrery::drivers::ebpf
