// schemas/intent.capnp as values. Field meanings and units are the schema's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/msg/queue_pair.h"

namespace orrery::msg {

inline constexpr std::string_view kIntentTopic = "intent";
inline constexpr uint16_t kSchemaVersion = 1;
inline constexpr uint32_t kMaxRanks = 1u << 20;

struct CommunicatorEvent {
  enum class Kind : uint8_t { kAnnounced, kReady, kGone };
  Kind kind = Kind::kAnnounced;
  uint64_t comm_id = 0;
  uint64_t parent_id = 0;
  uint32_t rank = 0;
  uint32_t nranks = 0;
  uint64_t process = 0;
  IpAddress address;
  bool device_traffic = false;
  friend bool operator==(const CommunicatorEvent&, const CommunicatorEvent&) = default;
};

struct Intent {
  uint64_t comm_id = 0;
  uint64_t process = 0;
  uint32_t rank = 0;
  uint16_t op = 0;
  uint64_t bytes = 0;
  uint32_t peer = 0xffffffff;
  uint32_t group = 0;
  uint64_t called_tai_ns = 0;
  uint64_t first_byte_tai_ns = 0;
  uint64_t last_byte_tai_ns = 0;
  uint64_t sequence = 0;
  uint16_t flags = 0;
  friend bool operator==(const Intent&, const Intent&) = default;
};

struct FlowReport {
  enum class Kind : uint8_t { kBorn, kProgress, kGone };
  Kind kind = Kind::kBorn;
  FiveTuple tuple;
  uint64_t comm_id = 0;
  uint64_t process = 0;
  uint64_t flow_id = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_bytes = 0;
  uint32_t bursts = 0;
  uint32_t retransmits = 0;
  uint8_t role = 0;
  uint64_t held_ns = 0;
  std::optional<QueuePair> queue_pair;
  friend bool operator==(const FlowReport&, const FlowReport&) = default;
};

struct ClockState {
  bool synchronized = false;
  int64_t offset_ns = 0;
  uint64_t bound_ns = 0;
  std::string source;
  bool release_suspended = false;
  friend bool operator==(const ClockState&, const ClockState&) = default;
};

struct Losses {
  uint64_t ring_dropped = 0;
  uint64_t no_ring = 0;
  uint64_t no_slot = 0;
  uint64_t malformed = 0;
  friend bool operator==(const Losses&, const Losses&) = default;
};

struct IntentWindow {
  uint16_t schema_version = kSchemaVersion;
  std::string host;
  uint64_t sequence = 0;
  uint64_t start_tai_ns = 0;
  uint64_t length_ns = 0;
  bool urgent = false;
  std::vector<CommunicatorEvent> communicators;
  std::vector<Intent> intents;
  std::vector<FlowReport> flows;
  ClockState clock;
  Losses losses;
  uint64_t agent_start_tai_ns = 0;
  friend bool operator==(const IntentWindow&, const IntentWindow&) = default;
};

Result<std::string> encode(const IntentWindow& window);
// Errors: kCorrupt, naming the field. Events and reports of a kind this version does not know are left out.
Result<IntentWindow> decode_intent_window(std::string_view frame);

}  // namespace orrery::msg
