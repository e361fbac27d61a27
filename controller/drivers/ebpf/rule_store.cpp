#include "controller/drivers/ebpf/rule_store.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace orrery::drivers::ebpf {
namespace {

constexpr uint32_t kSlots = 2 * ORRERY_SWITCH_MAX_RULES;

template <typename T>
void publish(T& target, T value) {
  __atomic_store_n(&target, value, __ATOMIC_RELEASE);
}

// Returns when every packet that was in the data plane has left it: the programs run under RCU, whose grace period this
// waits for. Milliseconds.
void wait_for_packets() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

// What makes a rule the same rule in two sets: match and mask, whatever the mask's index.
struct Identity {
  orrery_switch_tuple key;
  orrery_switch_tuple mask;
};

Identity identity_of(const orrery_switch_tuple& key, const orrery_switch_tuple& mask) {
  Identity identity{key, mask};
  identity.key.mask_index = identity.key.set = 0;
  return identity;
}

bool same(const Identity& a, const Identity& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace

RuleStore::RuleStore(BpfMap rules, orrery_switch_config* config, orrery_switch_rule_counters* counters)
    : rules_(std::move(rules)), config_(config), counters_(counters), slot_users_(kSlots, 0) {}

uint32_t RuleStore::take_slot(const BinaryRule& rule, const std::vector<orrery_switch_tuple>& masks) {
  const uint32_t active = config_->active_set & 1;
  const auto wanted = identity_of(rule.key, masks[rule.key.mask_index]);
  if (const auto found = active_by_id_.find(rule.value.rule_id); found != active_by_id_.end()) {
    const auto& old = sets_[active][found->second];
    if (same(identity_of(old.key, config_->sets[active].masks[old.key.mask_index]), wanted)) {
      ++slot_users_[old.value.counter_slot];
      return old.value.counter_slot;
    }
  }
  while (slot_users_[next_slot_] != 0)
    next_slot_ = (next_slot_ + 1) % kSlots;  // two full sets leave none over, never fewer
  const uint32_t slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % kSlots;
  slot_users_[slot] = 1;
  counters_[slot] = {};
  return slot;
}

void RuleStore::clear(uint32_t set) {
  for (const auto& rule : sets_[set]) {
    rules_.erase(&rule.key);
    --slot_users_[rule.value.counter_slot];
  }
  sets_[set].clear();
}

Status RuleStore::fill(uint32_t set, const BinaryRuleSet& rules) {
  sets_[set].reserve(rules.rules.size());
  for (const auto& rule : rules.rules) {
    Installed installed{rule.key, rule.value};
    installed.key.set = static_cast<uint8_t>(set);
    installed.value.counter_slot = take_slot(rule, rules.masks);
    sets_[set].push_back(installed);
    ORRERY_TRY(rules_.put(&installed.key, &installed.value));
  }
  return {};
}

Status RuleStore::install(const BinaryRuleSet& set, uint64_t valid_until_ns) {
  const uint32_t active = config_->active_set & 1, spare = 1 - active;
  if (!sets_[spare].empty()) wait_for_packets();  // replaced a moment ago and not purged yet
  clear(spare);
  active_by_id_.clear();
  for (size_t i = 0; i < sets_[active].size(); ++i) active_by_id_.emplace(sets_[active][i].value.rule_id, i);
  if (auto filled = fill(spare, set); !filled) {
    clear(spare);
    return filled;
  }
  auto& target = config_->sets[spare];
  std::memcpy(target.masks, set.masks.data(), set.masks.size() * sizeof(set.masks[0]));
  publish(target.rule_count, static_cast<uint32_t>(set.rules.size()));
  publish(target.mask_count, static_cast<uint32_t>(set.masks.size()));
  // The set before the lease: an expired old set must not come back to life for an instant.
  publish(config_->active_set, spare);
  publish(config_->rules_valid_until_ns, static_cast<orrery_u64>(valid_until_ns));
  publish(config_->term, static_cast<orrery_u64>(set.term));
  publish(config_->revision, static_cast<orrery_u64>(set.revision));
  return {};
}

void RuleStore::renew(uint64_t valid_until_ns) {
  publish(config_->rules_valid_until_ns, static_cast<orrery_u64>(valid_until_ns));
}

void RuleStore::withdraw() {
  publish(config_->rules_valid_until_ns, orrery_u64{0});
}

void RuleStore::purge() {
  const uint32_t active = config_->active_set & 1;
  clear(1 - active);
  publish(config_->sets[1 - active].mask_count, 0u);
  if (config_->rules_valid_until_ns != 0) return;
  clear(active);  // withdrawn
  publish(config_->sets[active].mask_count, 0u);
}

Status RuleStore::adopt(const BpfMap& other_rules, const orrery_switch_config& other_config) {
  const uint32_t active = other_config.active_set & 1;
  const auto& other_set = other_config.sets[active];
  BinaryRuleSet set{.term = other_config.term, .revision = other_config.revision};
  if (other_set.mask_count > ORRERY_SWITCH_MAX_MASKS)
    return Error{ErrorCode::kCorrupt, "the previous rule set has too many masks"};
  set.masks.assign(other_set.masks, other_set.masks + other_set.mask_count);
  orrery_switch_tuple key{}, next{};
  for (bool more = other_rules.next_key(nullptr, &next); more; more = other_rules.next_key(&key, &next)) {
    key = next;
    BinaryRule rule;
    if (key.set != active || key.mask_index >= set.masks.size() || !other_rules.get(&key, &rule.value)) continue;
    rule.key = key;
    rule.key.set = 0;
    set.rules.push_back(rule);
    if (set.rules.size() > ORRERY_SWITCH_MAX_RULES)
      return Error{ErrorCode::kCorrupt, "the previous rule set has too many rules"};
  }
  return install(set, other_config.rules_valid_until_ns);
}

std::vector<RuleCount> RuleStore::counts() const {
  std::vector<RuleCount> counts;
  for (const auto& rule : sets_[config_->active_set & 1])
    counts.push_back({rule.value.rule_id, rule.value.egress_port, counters_[rule.value.counter_slot]});
  return counts;
}

}  // namespace orrery::drivers::ebpf
