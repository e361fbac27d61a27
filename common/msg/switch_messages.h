// schemas/switch.capnp and telemetry.capnp as values: what controller and switches say to each other. Field meanings
// and units are the schemas'.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/msg/plan_messages.h"

namespace orrery::msg {

struct Rule {
  uint32_t rule_id = 0;
  FiveTuple match;
  FiveTuple mask;  // bits that count
  std::string egress_port;
  std::string backup_port;  // "": fall back to ECMP
  friend bool operator==(const Rule&, const Rule&) = default;
};

struct RuleSet {
  std::string switch_name;
  uint64_t term = 0;
  uint64_t revision = 0;
  uint64_t lease_ns = 0;
  std::vector<Rule> rules;
  friend bool operator==(const RuleSet&, const RuleSet&) = default;
};

struct SwitchHello {
  std::string switch_name;
  uint16_t schema_version = 1;
  std::string version;
  uint8_t hash_function = 0;
  uint32_t hash_seed = 0;
  std::vector<std::string> ports;
  uint32_t table_size = 0;
  uint32_t mask_limit = 0;
  std::vector<std::string> features;
  friend bool operator==(const SwitchHello&, const SwitchHello&) = default;
};

struct LinkSample {
  std::string port;
  bool up = false;
  uint64_t tx_bytes = 0;
  uint64_t tx_packets = 0;
  uint64_t drops = 0;
  uint64_t rx_bytes = 0;
  uint64_t rx_packets = 0;
  friend bool operator==(const LinkSample&, const LinkSample&) = default;
};

struct QueueSample {
  std::string port;
  uint64_t max_bytes = 0;
  uint64_t mean_bytes = 0;
  uint64_t samples = 0;
  friend bool operator==(const QueueSample&, const QueueSample&) = default;
};

struct RuleSample {
  uint32_t rule_id = 0;
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t backup_packets = 0;
  friend bool operator==(const RuleSample&, const RuleSample&) = default;
};

struct PathEvent {
  enum class Kind : uint8_t { kPortDown, kPortUp, kBackupInUse, kPrimaryInUse };
  Kind kind = Kind::kPortDown;
  std::string port;
  uint64_t at_tai_ns = 0;
  std::string detail;
  friend bool operator==(const PathEvent&, const PathEvent&) = default;
};

struct SwitchTelemetry {
  std::string switch_name;
  uint64_t at_tai_ns = 0;
  std::vector<LinkSample> links;
  std::vector<QueueSample> queues;
  std::vector<RuleSample> rules;
  std::vector<PathEvent> events;
  uint64_t no_route = 0;
  uint64_t ttl_expired = 0;
  friend bool operator==(const SwitchTelemetry&, const SwitchTelemetry&) = default;
};

using SwitchMessage = std::variant<SwitchHello, Ack, SwitchTelemetry>;
using SwitchCommand = std::variant<RuleSet, Lease, Withdraw, Refused>;

Result<std::string> encode(const SwitchMessage& message);
Result<std::string> encode(const SwitchCommand& command);
// Errors: kCorrupt, naming the field, also for a kind of message that this version does not know.
Result<SwitchMessage> decode_switch_message(std::string_view frame);
Result<SwitchCommand> decode_switch_command(std::string_view frame);

}  // namespace orrery::msg
