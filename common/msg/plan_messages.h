// schemas/plan.capnp as values: what controller and agents say to each other. Field meanings and units are the
// schema's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace orrery::msg {

struct HashHop {
  uint32_t seed = 0;
  uint16_t group_size = 0;
  uint16_t member = 0;
  uint8_t hash_function = 0;
  friend bool operator==(const HashHop&, const HashHop&) = default;
};

struct FlowPlan {
  uint64_t flow_id = 0;
  uint64_t comm_id = 0;
  IpAddress src;
  IpAddress dst;
  uint8_t protocol = 6;
  uint16_t ordinal = 0xffff;
  FiveTuple tuple;  // unspecified until the flow exists
  std::vector<std::string> path;
  std::vector<std::vector<std::string>> backups;
  std::vector<HashHop> hops;
  uint16_t src_port_first = 0;
  uint16_t src_port_last = 0;
  uint16_t src_port_mask = 0;
  uint16_t src_port_value = 0;
  uint64_t release_offset_ns = 0;
  uint64_t pace_bps = 0;
  uint8_t dscp = 255;
  friend bool operator==(const FlowPlan&, const FlowPlan&) = default;
};

struct HostPlan {
  std::string host;
  uint64_t term = 0;
  uint64_t revision = 0;
  uint64_t lease_ns = 0;
  std::vector<FlowPlan> flows;
  friend bool operator==(const HostPlan&, const HostPlan&) = default;
};

struct Lease {
  uint64_t term = 0;
  uint64_t revision = 0;
  uint64_t lease_ns = 0;
  friend bool operator==(const Lease&, const Lease&) = default;
};

struct Withdraw {
  Lease lease;
  friend bool operator==(const Withdraw&, const Withdraw&) = default;
};

struct Ack {
  std::string name;  // host or switch
  uint64_t term = 0;
  uint64_t revision = 0;
  bool accepted = false;
  std::string reason;
  uint32_t entries = 0;
  friend bool operator==(const Ack&, const Ack&) = default;
};

struct AgentHello {
  std::string host;
  uint16_t schema_version = 1;
  std::string version;
  std::vector<IpAddress> addresses;
  uint32_t processes = 0;
  std::vector<std::string> features;
  std::vector<uint32_t> layers;
  friend bool operator==(const AgentHello&, const AgentHello&) = default;
};

// The controller's answer to a hello it cannot accept; `reason` says what to do.
struct Refused {
  std::string reason;
  friend bool operator==(const Refused&, const Refused&) = default;
};

using AgentMessage = std::variant<AgentHello, Ack>;
using ControllerMessage = std::variant<HostPlan, Lease, Withdraw, Refused>;

Result<std::string> encode(const AgentMessage& message);
Result<std::string> encode(const ControllerMessage& message);
// Errors: kCorrupt, naming the field, also for a kind of message that this version does not know.
Result<AgentMessage> decode_agent_message(std::string_view frame);
Result<ControllerMessage> decode_controller_message(std::string_view frame);

}  // namespace orrery::msg
