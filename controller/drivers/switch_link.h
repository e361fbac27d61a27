// How a driver with rules in switches talks to them: the api implements SwitchLink over its socket, the driver
// implements SwitchEvents.
//
// Threading: everything here is called on the controller's thread. Sending never blocks: it queues a message or fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "controller/drivers/driver.h"

namespace orrery::drivers {

// One entry of schemas/switch.capnp's RuleSet. In `mask` the bits that count are one: an all-ones address, port 0xffff
// and protocol 0xff match exactly, zero matches all.
struct SwitchRule {
  uint32_t rule_id = 0;
  FiveTuple match;
  FiveTuple mask;
  std::string egress_port;  // port name on that switch, "p5"
  std::string backup_port;  // "": fall back to ECMP
  friend bool operator==(const SwitchRule&, const SwitchRule&) = default;
};

// The whole set of one switch: replaces what it had.
struct SwitchRuleSet {
  Revision revision;
  uint64_t lease_ns = 0;
  std::vector<SwitchRule> rules;
};

// What a switch said of itself in its hello.
struct SwitchInfo {
  std::string name;
  uint8_t hash_function = 0;  // enum orrery_hash_function
  uint32_t hash_seed = 0;
  std::vector<std::string> ports;  // in group-member order
  uint32_t table_size = 0;
  uint32_t mask_limit = 0;
  std::vector<std::string> features;
};

struct SwitchAck {
  std::string name;
  Revision revision;
  bool accepted = false;
  std::string reason;  // when refused
  uint32_t entries = 0;
};

class SwitchLink {
 public:
  virtual ~SwitchLink() = default;
  // Errors: kNotFound, no switch of that name is connected; kUnavailable, its queue is full. Nothing was sent then.
  virtual Status send_rules(std::string_view name, const SwitchRuleSet& rules) = 0;
  virtual Status send_lease(std::string_view name, Revision revision, uint64_t lease_ns) = 0;
  virtual Status send_withdraw(std::string_view name, Revision revision) = 0;
  // Switches whose hello is fresh, by name.
  virtual std::vector<SwitchInfo> connected() const = 0;
};

class SwitchEvents {
 public:
  virtual ~SwitchEvents() = default;
  // First hello of a switch, or the first after it was gone or restarted: it has no rules now.
  virtual void on_switch_connected(const SwitchInfo& info) = 0;
  // No hello for longer than the lease.
  virtual void on_switch_gone(std::string_view name) = 0;
  virtual void on_switch_ack(const SwitchAck& ack) = 0;
};

}  // namespace orrery::drivers
