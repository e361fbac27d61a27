// What the agent tells the controller about one window, as plain data; the wire form is schemas/intent.capnp, with the
// same fields. All times are TAI nanoseconds, 0 where not known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ip_address.h"

namespace orrery::collect {

struct CommunicatorReport {
  enum class Kind : uint8_t { kAnnounced, kReady, kGone };
  Kind kind = Kind::kAnnounced;
  uint64_t comm_id = 0;
  uint64_t parent_id = 0;
  uint32_t rank = 0;
  uint32_t nranks = 0;
  uint64_t process = 0;
  IpAddress address;
  friend bool operator==(const CommunicatorReport&, const CommunicatorReport&) = default;
};

// Told when the collective is called, and again with both byte times when its end was seen: same (comm_id, process,
// sequence).
struct IntentReport {
  uint64_t comm_id = 0;
  uint64_t process = 0;
  uint32_t rank = 0;
  uint16_t op = 0;  // enum orrery_collective_op
  uint64_t bytes = 0;
  uint32_t peer = 0;
  uint32_t group = 0;
  uint64_t called_tai_ns = 0;
  uint64_t first_byte_tai_ns = 0;
  uint64_t last_byte_tai_ns = 0;
  uint64_t sequence = 0;
  friend bool operator==(const IntentReport&, const IntentReport&) = default;
};

struct FlowReport {
  enum class Kind : uint8_t { kBorn, kProgress, kGone };
  Kind kind = Kind::kBorn;
  FiveTuple tuple;  // src is this host
  uint64_t comm_id = 0;
  uint64_t process = 0;
  uint64_t flow_id = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_bytes = 0;
  uint32_t bursts = 0;
  uint32_t retransmits = 0;
  uint8_t role = 0;  // enum orrery_flow_role
  uint64_t held_ns = 0;
  friend bool operator==(const FlowReport&, const FlowReport&) = default;
};

struct ClockReport {
  bool synchronized = false;
  int64_t offset_ns = 0;
  uint64_t bound_ns = 0;
  std::string source = "none";
  bool release_suspended = false;
  friend bool operator==(const ClockReport&, const ClockReport&) = default;
};

struct LossReport {
  uint64_t ring_dropped = 0;
  uint64_t no_ring = 0;
  uint64_t no_slot = 0;
  uint64_t malformed = 0;
  friend bool operator==(const LossReport&, const LossReport&) = default;
};

struct IntentWindow {
  std::string host;
  uint64_t sequence = 0;
  uint64_t start_tai_ns = 0;
  uint64_t length_ns = 0;
  bool urgent = false;
  uint64_t agent_start_tai_ns = 0;
  std::vector<CommunicatorReport> communicators;
  std::vector<IntentReport> intents;
  std::vector<FlowReport> flows;
  ClockReport clock;
  LossReport losses;
  friend bool operator==(const IntentWindow&, const IntentWindow&) = default;
};

}  // namespace orrery::collect
