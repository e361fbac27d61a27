// The plan rules inside the data plane: replaces whole sets, make-before-break.
//
// install() writes the new set beside the active one and makes it active by one store; the old set's entries stay until
// purge(), which must not be called before packets in flight have passed (a few milliseconds). Counters of a rule whose
// id and match are unchanged go on. Not thread-safe; the maps belong to the DataPlane, which outlives this.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/abi/switch_abi.h"
#include "common/base/result.h"
#include "controller/drivers/ebpf/bpf_map.h"
#include "controller/drivers/ebpf/rule_set.h"

namespace orrery::drivers::ebpf {

struct RuleCount {
  uint32_t rule_id = 0;
  uint8_t egress_port = 0;
  orrery_switch_rule_counters counters{};
};

class RuleStore {
 public:
  RuleStore() = default;
  // `config` and `counters` are the mapped arrays; `counters` has 2 * ORRERY_SWITCH_MAX_RULES elements.
  RuleStore(BpfMap rules, orrery_switch_config* config, orrery_switch_rule_counters* counters);

  // On failure the active set is untouched. The lease ends at `valid_until_ns` (CLOCK_MONOTONIC).
  Status install(const BinaryRuleSet& set, uint64_t valid_until_ns);
  void renew(uint64_t valid_until_ns);
  // Rules are ignored from now on; forwarding is plain ECMP. Entries go with the next purge() or install().
  void withdraw();
  void purge();
  // Takes over the active set of another data plane: what a restarted control process does. Lease, term and revision
  // come along.
  Status adopt(const BpfMap& other_rules, const orrery_switch_config& other_config);

  uint64_t term() const { return config_->term; }
  uint64_t revision() const { return config_->revision; }
  bool withdrawn() const { return config_->rules_valid_until_ns == 0; }
  bool in_force(uint64_t now_ns) const { return config_->rules_valid_until_ns > now_ns; }
  size_t size() const { return sets_[config_->active_set & 1].size(); }
  std::vector<RuleCount> counts() const;

 private:
  struct Installed {
    orrery_switch_tuple key{};  // with `set`
    orrery_switch_rule value{};
  };
  // Slot of the active rule with this id and match, else a fresh one.
  uint32_t take_slot(const BinaryRule& rule, const std::vector<orrery_switch_tuple>& masks);
  void clear(uint32_t set);
  Status fill(uint32_t set, const BinaryRuleSet& rules);

  BpfMap rules_;
  orrery_switch_config* config_ = nullptr;
  orrery_switch_rule_counters* counters_ = nullptr;
  std::vector<Installed> sets_[2];
  std::unordered_map<uint32_t, size_t> active_by_id_;  // only meaningful inside install()
  std::vector<uint32_t> slot_users_;                   // how many sets use a counter slot
  uint32_t next_slot_ = 0;
};

}  // namespace orrery::drivers::ebpf
