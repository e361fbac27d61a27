// schemas/control.capnp as values: what orreryctl asks and the controller answers. Field meanings and units are the
// schema's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/msg/queue_pair.h"

namespace orrery::msg {

struct Request {
  enum class Kind : uint8_t {
    kPlanList,
    kFlowExplain,
    kLinkList,
    kJobList,
    kHostList,
    kSwitchList,
    kHealth,
    kForecastList,
    kFlowList,
    kNicForecasts
  };
  Kind kind = Kind::kHealth;
  uint64_t flow_id = 0;  // kFlowExplain
  friend bool operator==(const Request&, const Request&) = default;
};

// kUnrecognised, here and below: what a newer controller says and this version has no name for.
struct PlannedFlow {
  enum class State : uint8_t { kPlanned, kAcknowledged, kAlive, kFixed, kUnrecognised };
  enum class OnPath : uint8_t { kUnknown, kYes, kNo };
  uint64_t flow_id = 0;
  uint64_t comm_id = 0;
  std::string src_host;
  std::string dst_host;
  FiveTuple tuple;
  std::vector<std::string> path;
  std::vector<std::string> backup;
  uint64_t bytes_per_round = 0;
  uint64_t release_offset_ns = 0;
  uint64_t pace_bps = 0;
  State state = State::kPlanned;
  OnPath on_path = OnPath::kUnknown;
  friend bool operator==(const PlannedFlow&, const PlannedFlow&) = default;
};

struct PlanBounds {
  uint64_t max_drain_ns = 0;
  uint64_t lower_bound_ns = 0;
  uint64_t fluid_bound_ns = 0;

  bool known() const { return lower_bound_ns != 0; }
  // How far the plan is above the bound, in per cent of it. Precondition: known().
  double gap_percent() const {
    return 100 * (static_cast<double>(max_drain_ns) / static_cast<double>(lower_bound_ns) - 1);
  }
  friend bool operator==(const PlanBounds&, const PlanBounds&) = default;
};

struct PlanList {
  uint64_t term = 0;
  uint64_t revision = 0;
  std::string driver;
  std::string method;
  uint64_t max_load_bytes = 0;
  uint64_t lower_bound_bytes = 0;
  uint64_t planned_at_tai_ns = 0;
  uint64_t planning_ns = 0;
  std::vector<PlannedFlow> flows;
  PlanBounds bounds;
  friend bool operator==(const PlanList&, const PlanList&) = default;
};

struct LiveFlow {
  FiveTuple tuple;
  std::string src_host;
  std::string dst_host;
  uint64_t comm_id = 0;
  uint64_t flow_id = 0;
  uint64_t tx_bytes = 0;
  std::vector<std::string> path;
  PlannedFlow::OnPath on_path = PlannedFlow::OnPath::kUnknown;
  std::optional<QueuePair> queue_pair;
  uint64_t held_ns = 0;
  friend bool operator==(const LiveFlow&, const LiveFlow&) = default;
};

struct FlowList {
  uint64_t total = 0;
  std::vector<LiveFlow> flows;
  friend bool operator==(const FlowList&, const FlowList&) = default;
};

struct HopExplanation {
  std::string port;
  std::string decided_by;
  uint64_t load_bytes = 0;
  std::vector<std::string> alternatives;
  friend bool operator==(const HopExplanation&, const HopExplanation&) = default;
};

struct FlowExplanation {
  PlannedFlow flow;
  std::vector<std::string> reasons;
  std::vector<HopExplanation> hops;
  std::vector<LiveFlow> live;
  PlanBounds bounds;
  friend bool operator==(const FlowExplanation&, const FlowExplanation&) = default;
};

struct LinkState {
  std::string port;
  std::string peer;
  bool up = false;
  uint64_t rate_bps = 0;
  uint64_t queue_bytes = 0;
  double utilization = 0;
  uint64_t planned_bytes = 0;
  uint64_t tx_bytes = 0;
  uint64_t drops = 0;
  uint64_t queue_max_bytes = 0;
  uint32_t flows = 0;
  friend bool operator==(const LinkState&, const LinkState&) = default;
};

struct JobState {
  uint64_t comm_id = 0;
  uint32_t nranks = 0;
  uint32_t announced = 0;
  std::vector<std::string> hosts;  // by rank, "" where unknown
  uint64_t collectives = 0;
  uint64_t bytes_total = 0;
  uint64_t plan_hits = 0;
  uint64_t plan_misses = 0;
  uint16_t last_op = 0;
  uint64_t last_bytes = 0;
  bool device_traffic = false;
  friend bool operator==(const JobState&, const JobState&) = default;
};

struct ForecastState {
  uint64_t comm_id = 0;
  uint16_t op = 0;
  uint64_t bytes = 0;
  uint64_t window_start_tai_ns = 0;
  uint64_t window_end_tai_ns = 0;
  uint64_t period_ns = 0;
  uint64_t jitter_ns = 0;
  double confidence = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  friend bool operator==(const ForecastState&, const ForecastState&) = default;
};

struct ForecastJob {
  std::string name;
  uint64_t period_ns = 0;
  friend bool operator==(const ForecastJob&, const ForecastJob&) = default;
};

struct NicForecast {
  enum class Verdict : uint8_t { kUnknown, kAsPredicted, kSlower, kFaster, kSilent, kNotPredicted, kUnrecognised };
  std::string host;
  std::string nic;
  std::string jobs;
  uint64_t bytes_per_iteration = 0;
  uint64_t predicted_bps = 0;
  uint64_t predicted_peak_bps = 0;
  uint64_t observed_bps = 0;
  uint64_t observed_peak_bps = 0;
  Verdict verdict = Verdict::kUnknown;
  friend bool operator==(const NicForecast&, const NicForecast&) = default;
};

struct NicForecasts {
  std::string source;  // "": no prediction is loaded
  std::string topology;
  bool same_fabric = false;
  std::vector<ForecastJob> jobs;
  uint64_t total = 0;
  std::vector<NicForecast> nics;
  friend bool operator==(const NicForecasts&, const NicForecasts&) = default;
};

struct HostState {
  std::string host;
  bool connected = false;
  uint64_t last_seen_tai_ns = 0;
  uint32_t processes = 0;
  uint64_t plan_revision = 0;
  uint32_t plan_entries = 0;
  uint64_t windows = 0;
  uint64_t windows_lost = 0;
  uint64_t events_lost = 0;
  int64_t clock_offset_ns = 0;
  bool clock_synchronized = false;
  std::string refusal;
  std::vector<std::string> features;
  std::vector<uint32_t> layers;
  friend bool operator==(const HostState&, const HostState&) = default;
};

struct SwitchState {
  std::string switch_name;
  bool connected = false;
  uint64_t last_seen_tai_ns = 0;
  uint64_t rule_revision = 0;
  uint32_t rules = 0;
  uint32_t table_size = 0;
  uint32_t ports_up = 0;
  uint32_t ports = 0;
  std::string refusal;
  friend bool operator==(const SwitchState&, const SwitchState&) = default;
};

struct Health {
  std::string version;
  uint64_t started_tai_ns = 0;
  uint64_t term = 0;
  uint64_t revision = 0;
  std::string driver;
  uint32_t hosts_connected = 0;
  uint32_t hosts_known = 0;
  uint32_t switches_connected = 0;
  uint32_t switches_known = 0;
  uint64_t plan_hits = 0;
  uint64_t plan_misses = 0;
  std::vector<std::string> problems;
  friend bool operator==(const Health&, const Health&) = default;
};

// A question the controller could not answer; `message` says what to do.
struct RequestError {
  // How the message begins where the controller is older than the question. Every release says it so.
  static constexpr std::string_view kUnknownKind = "Request is of a kind this version does not know";
  std::string message;
  bool is_unknown_kind() const { return message.starts_with(kUnknownKind); }
  friend bool operator==(const RequestError&, const RequestError&) = default;
};

using Response = std::variant<RequestError, PlanList, FlowExplanation, std::vector<LinkState>, std::vector<JobState>,
                              std::vector<HostState>, std::vector<SwitchState>, Health, std::vector<ForecastState>,
                              FlowList, NicForecasts>;

Result<std::string> encode(const Request& request);
Result<std::string> encode(const Response& response);
// Errors: kCorrupt, naming the field, also for a kind of message that this version does not know.
Result<Request> decode_request(std::string_view frame);
Result<Response> decode_response(std::string_view frame);

}  // namespace orrery::msg
