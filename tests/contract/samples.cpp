#include "tests/contract/samples.h"

#include <fmt/format.h>

namespace orrery::test {
namespace {

IpAddress address(uint32_t n) {
  return IpAddress::from_v4(0x0a000000 + n);
}
FiveTuple tuple(uint32_t n) {
  return {address(n), address(n + 1), static_cast<uint16_t>(40000 + n), static_cast<uint16_t>(5000 + n), 6};
}

FiveTuple roce_tuple() {
  return {address(1), address(2), 49441, 4791, 17};
}

msg::QueuePair sample_queue_pair() {
  return {.qpn = 17,
          .dest_qpn = 18,
          .device = "rxe0",
          .flags = 10,
          .traffic_class = 104,
          .flow_label = 7,
          .cycle = 1,
          .moves = 2,
          .posted_sends = 100,
          .completed_sends = 99,
          .completion_errors = 3,
          .failed_posts = 4,
          .deferred_sends = 50,
          .drained_early = 5};
}

msg::PlannedFlow sample_planned_flow() {
  return {.flow_id = 41,
          .comm_id = 0xfedcba9876543210,
          .src_host = "h1",
          .dst_host = "h5",
          .tuple = tuple(7),
          .path = {"h1:eth0", "leaf1:p5", "spine1:p2", "leaf2:p1"},
          .backup = {"h1:eth0", "leaf1:p6", "spine2:p2", "leaf2:p1"},
          .bytes_per_round = 1 << 26,
          .release_offset_ns = 250'000,
          .pace_bps = 50'000'000,
          .state = msg::PlannedFlow::State::kAlive,
          .on_path = msg::PlannedFlow::OnPath::kNo};
}

msg::FlowPlan sample_flow_plan() {
  return {.flow_id = 41,
          .comm_id = 42,
          .src = address(1),
          .dst = address(2),
          .protocol = 17,
          .ordinal = 3,
          .tuple = tuple(9),
          .path = {"h1:eth0", "leaf1:p5"},
          .backups = {{"h1:eth0", "leaf1:p6"}, {"h1:eth0", "leaf1:p7"}},
          .hops = {{101, 4, 3, 1}, {202, 8, 7, 1}},
          .src_port_first = 32768,
          .src_port_last = 60999,
          .src_port_mask = 0x00f0,
          .src_port_value = 0x0030,
          .release_offset_ns = 125'000,
          .pace_bps = 25'000'000,
          .dscp = 26};
}

template <typename Message>
void encode_all(std::vector<EncodedSample>& out, const std::string& name, const std::vector<Message>& messages) {
  for (size_t i = 0; i < messages.size(); ++i)
    out.push_back({fmt::format("{}-{}.bin", name, i), *msg::encode(messages[i])});
}

}  // namespace

msg::IntentWindow sample_window() {
  msg::IntentWindow window{
      .host = "h1", .sequence = 12, .start_tai_ns = 1'790'000'000'000'000'001, .length_ns = 10'000'000, .urgent = true};
  using Kind = msg::CommunicatorEvent::Kind;
  window.communicators = {
      {.kind = Kind::kAnnounced,
       .comm_id = 0xfedcba9876543210,
       .parent_id = 5,
       .rank = 3,
       .nranks = 16,
       .process = 8,
       .address = address(1)},
      {.kind = Kind::kReady, .comm_id = 6, .rank = 0, .nranks = 2, .process = 9, .address = address(1)},
      {.kind = Kind::kGone, .comm_id = 7, .process = 9}};
  window.intents = {{.comm_id = 6,
                     .process = 9,
                     .rank = 1,
                     .op = 4,
                     .bytes = 1 << 26,
                     .peer = 0,
                     .group = 77,
                     .called_tai_ns = 101,
                     .first_byte_tai_ns = 102,
                     .last_byte_tai_ns = 103,
                     .sequence = 13}};
  using Flow = msg::FlowReport::Kind;
  window.flows = {{.kind = Flow::kBorn,
                   .tuple = tuple(1),
                   .comm_id = 6,
                   .process = 9,
                   .flow_id = 41,
                   .tx_bytes = 1,
                   .rx_bytes = 2,
                   .bursts = 3,
                   .retransmits = 4,
                   .role = 1,
                   .held_ns = 5},
                  {.kind = Flow::kProgress, .tuple = tuple(2), .tx_bytes = uint64_t{1} << 40, .role = 2},
                  {.kind = Flow::kGone, .tuple = tuple(3)}};
  window.clock = {
      .synchronized = true, .offset_ns = -250, .bound_ns = 1000, .source = "ptp4l", .release_suspended = true};
  window.losses = {.ring_dropped = 1, .no_ring = 2, .no_slot = 3, .malformed = 4};
  window.agent_start_tai_ns = 1'790'000'000'000'000'000;
  return window;
}

std::vector<msg::AgentMessage> sample_agent_messages() {
  return {msg::AgentHello{.host = "h1",
                          .schema_version = 1,
                          .version = "0.1.0",
                          .addresses = {address(1), *IpAddress::parse("fd00::1")},
                          .processes = 2,
                          .features = {"preload", "bpf"}},
          msg::Ack{.name = "h1", .term = 1, .revision = 2, .accepted = true, .entries = 3},
          msg::Ack{.name = "h1", .term = 1, .revision = 2, .accepted = false, .reason = "term 1 is over"}};
}

std::vector<msg::ControllerMessage> sample_controller_messages() {
  return {msg::HostPlan{.host = "h1",
                        .term = 9,
                        .revision = 8,
                        .lease_ns = 3'000'000'000,
                        .flows = {sample_flow_plan(), {.flow_id = 1, .src = address(3), .dst = address(4)}}},
          msg::Lease{9, 8, 3'000'000'000}, msg::Withdraw{{9, 8, 0}},
          msg::Refused{"agent of host 'h99' is refused: it is not in the topology file"}};
}

std::vector<msg::SwitchMessage> sample_switch_messages() {
  using Kind = msg::PathEvent::Kind;
  msg::SwitchTelemetry telemetry{.switch_name = "leaf1", .at_tai_ns = 1'790'000'000'000'000'000};
  telemetry.links = {
      {.port = "leaf1:p5", .up = true, .tx_bytes = 1, .tx_packets = 2, .drops = 3, .rx_bytes = 4, .rx_packets = 5},
      {.port = "leaf1:p6"}};
  telemetry.queues = {{.port = "leaf1:p5", .max_bytes = 6, .mean_bytes = 7, .samples = 8}};
  telemetry.rules = {{.rule_id = 12, .packets = 9, .bytes = 10, .backup_packets = 11}};
  telemetry.events = {{Kind::kPortDown, "leaf1:p6", 1, "carrier lost"},
                      {Kind::kPortUp, "leaf1:p6", 2, ""},
                      {Kind::kBackupInUse, "leaf1:p6", 3, "rule 12"},
                      {Kind::kPrimaryInUse, "leaf1:p6", 4, "rule 12"}};
  telemetry.no_route = 12;
  telemetry.ttl_expired = 13;
  return {msg::SwitchHello{.switch_name = "leaf1",
                           .schema_version = 1,
                           .version = "0.1.0",
                           .hash_function = 1,
                           .hash_seed = 101,
                           .ports = {"p1", "p2"},
                           .table_size = 16384,
                           .mask_limit = 8,
                           .features = {"exact-path"}},
          msg::Ack{.name = "leaf1", .term = 1, .revision = 2, .accepted = true, .entries = 3}, telemetry};
}

std::vector<msg::SwitchCommand> sample_switch_commands() {
  const IpAddress all_ones = IpAddress::from_bytes(std::vector<uint8_t>(16, 0xff).data());
  msg::RuleSet rules{.switch_name = "leaf1", .term = 9, .revision = 8, .lease_ns = 3'000'000'000};
  rules.rules = {{.rule_id = 12,
                  .match = tuple(1),
                  .mask = {all_ones, all_ones, 0xffff, 0, 0xff},
                  .egress_port = "p5",
                  .backup_port = "p6"},
                 {.rule_id = 13, .match = tuple(2), .mask = {all_ones, all_ones, 0, 0, 0}, .egress_port = "p7"}};
  return {rules, msg::Lease{9, 8, 3'000'000'000}, msg::Withdraw{{9, 8, 0}}, msg::Refused{"switch 'leaf9' is refused"}};
}

std::vector<msg::Request> sample_requests() {
  using Kind = msg::Request::Kind;
  return {{Kind::kPlanList}, {Kind::kFlowExplain, 41}, {Kind::kLinkList}, {Kind::kJobList},
          {Kind::kHostList}, {Kind::kSwitchList},      {Kind::kHealth},   {Kind::kForecastList}};
}

std::vector<msg::Response> sample_responses() {
  return {
      msg::RequestError{"no flow 41 in the plan"},
      msg::PlanList{.term = 1,
                    .revision = 2,
                    .driver = "ebpf",
                    .method = "edge-colouring",
                    .max_load_bytes = 3,
                    .lower_bound_bytes = 4,
                    .planned_at_tai_ns = 5,
                    .planning_ns = 6,
                    .flows = {sample_planned_flow()}},
      msg::FlowExplanation{.flow = sample_planned_flow(),
                           .reasons = {"demanded: 64 MiB"},
                           .hops = {{"leaf1:p5", "rule 12", 7, {"leaf1:p6 (load 8 MiB)"}}}},
      std::vector<msg::LinkState>{{.port = "leaf1:p5",
                                   .peer = "spine1:p1",
                                   .up = true,
                                   .rate_bps = 100'000'000,
                                   .queue_bytes = 262'144,
                                   .utilization = 0.75,
                                   .planned_bytes = 1,
                                   .tx_bytes = 2,
                                   .drops = 3,
                                   .queue_max_bytes = 4,
                                   .flows = 5}},
      std::vector<msg::JobState>{{.comm_id = 1,
                                  .nranks = 3,
                                  .announced = 2,
                                  .hosts = {"h1", "", "h3"},
                                  .collectives = 4,
                                  .bytes_total = 5,
                                  .plan_hits = 6,
                                  .plan_misses = 7,
                                  .last_op = 1,
                                  .last_bytes = 8}},
      std::vector<msg::HostState>{{.host = "h1",
                                   .connected = true,
                                   .last_seen_tai_ns = 1,
                                   .processes = 2,
                                   .plan_revision = 3,
                                   .plan_entries = 4,
                                   .windows = 5,
                                   .windows_lost = 6,
                                   .events_lost = 7,
                                   .clock_offset_ns = -8,
                                   .clock_synchronized = true,
                                   .refusal = "no room"}},
      std::vector<msg::SwitchState>{{.switch_name = "leaf1",
                                     .connected = true,
                                     .last_seen_tai_ns = 1,
                                     .rule_revision = 2,
                                     .rules = 3,
                                     .table_size = 4,
                                     .ports_up = 5,
                                     .ports = 6,
                                     .refusal = "table full"}},
      msg::Health{.version = "0.1.0",
                  .started_tai_ns = 1,
                  .term = 2,
                  .revision = 3,
                  .driver = "ebpf",
                  .hosts_connected = 4,
                  .hosts_known = 5,
                  .switches_connected = 6,
                  .switches_known = 7,
                  .plan_hits = 8,
                  .plan_misses = 9,
                  .problems = {"no agent on h3"}},
      std::vector<msg::ForecastState>{{.comm_id = 1,
                                       .op = 2,
                                       .bytes = 3,
                                       .window_start_tai_ns = 4,
                                       .window_end_tai_ns = 5,
                                       .period_ns = 6,
                                       .jitter_ns = 7,
                                       .confidence = 0.5,
                                       .hits = 8,
                                       .misses = 9}},
  };
}

std::vector<EncodedSample> encoded_samples() {
  std::vector<EncodedSample> out;
  encode_all(out, "intent-window", std::vector{sample_window()});
  encode_all(out, "agent-message", sample_agent_messages());
  encode_all(out, "controller-message", sample_controller_messages());
  encode_all(out, "switch-message", sample_switch_messages());
  encode_all(out, "switch-command", sample_switch_commands());
  encode_all(out, "request", sample_requests());
  encode_all(out, "response", sample_responses());
  return out;
}

msg::IntentWindow sample_window_0_2() {
  msg::IntentWindow window{.host = "h1", .sequence = 12, .length_ns = 10'000'000};
  window.communicators = {
      {.comm_id = 6, .rank = 0, .nranks = 2, .process = 9, .address = address(1), .device_traffic = true}};
  window.intents = {{.comm_id = 6, .process = 9, .op = 12, .bytes = 1 << 20, .peer = 1, .flags = 5}};
  window.flows = {{.tuple = roce_tuple(), .comm_id = 6, .tx_bytes = 7, .held_ns = 8, .queue_pair = sample_queue_pair()},
                  {.kind = msg::FlowReport::Kind::kGone, .tuple = tuple(3)}};
  return window;
}

std::vector<msg::AgentMessage> sample_agent_messages_0_2() {
  return {msg::AgentHello{.host = "h1",
                          .version = "0.2.0",
                          .addresses = {address(1)},
                          .processes = 3,
                          .features = {"preload", "roce"},
                          .layers = {3, 3, 2, 3, 1}}};
}

std::vector<msg::Request> sample_requests_0_2() {
  return {{msg::Request::Kind::kFlowList}};
}

std::vector<msg::Response> sample_responses_0_2() {
  const msg::LiveFlow live{.tuple = roce_tuple(),
                           .src_host = "h1",
                           .dst_host = "h5",
                           .comm_id = 6,
                           .flow_id = 41,
                           .tx_bytes = 7,
                           .path = {"h1:eth0", "leaf1:p5"},
                           .on_path = msg::PlannedFlow::OnPath::kYes,
                           .queue_pair = sample_queue_pair(),
                           .held_ns = 8};
  return {msg::FlowList{.total = 5, .flows = {live, {.tuple = tuple(1)}}},
          msg::FlowExplanation{.flow = sample_planned_flow(), .live = {live}},
          std::vector<msg::JobState>{{.comm_id = 1, .nranks = 1, .device_traffic = true}},
          std::vector<msg::HostState>{{.host = "h1", .features = {"preload", "roce"}, .layers = {3, 3, 2, 3, 1}}}};
}

std::vector<EncodedSample> encoded_samples_0_2() {
  std::vector<EncodedSample> out;
  encode_all(out, "intent-window", std::vector{sample_window_0_2()});
  encode_all(out, "agent-message", sample_agent_messages_0_2());
  encode_all(out, "request", sample_requests_0_2());
  encode_all(out, "response", sample_responses_0_2());
  return out;
}

std::vector<msg::Request> sample_requests_0_3() {
  return {{msg::Request::Kind::kNicForecasts}};
}

std::vector<msg::Response> sample_responses_0_3() {
  const msg::PlanBounds bounds{3, 2, 1};
  const msg::NicForecast nic{.host = "h1",
                             .nic = "eth0",
                             .jobs = "train, eval",
                             .bytes_per_iteration = 1,
                             .predicted_bps = 2,
                             .predicted_peak_bps = 3,
                             .observed_bps = 4,
                             .observed_peak_bps = 5,
                             .verdict = msg::NicForecast::Verdict::kNotPredicted};
  return {msg::PlanList{.term = 1, .revision = 2, .bounds = bounds},
          msg::FlowExplanation{.flow = sample_planned_flow(), .bounds = bounds},
          msg::NicForecasts{.source = "orrery, fluid engine, seed 1: a ring",
                            .topology = "leaf-spine-4x4x16",
                            .same_fabric = true,
                            .jobs = {{"train", 6}, {"eval", 7}},
                            .total = 8,
                            .nics = {nic}}};
}

std::vector<msg::Waveforms> sample_waveforms_0_3() {
  return {{.topology = "leaf-spine-4x4x16",
           .fingerprint = 0xfedcba9876543210,
           .scheme = "orrery",
           .engine = "fluid",
           .seed = 7,
           .title = "scenario.yaml: 1 seed",
           .bin_ns = 4096,
           .jobs = {{"train", 3, 12'500'000}, {"eval", 1, 1}},
           .nics = {{"h1", "eth0", {0, 51'200, 400}, {{0, 50'000}, {1, 100}}}, {"h2", "eth1", {}, {}}}}};
}

std::vector<EncodedSample> encoded_samples_0_3() {
  std::vector<EncodedSample> out;
  encode_all(out, "request", sample_requests_0_3());
  encode_all(out, "response", sample_responses_0_3());
  encode_all(out, "waveforms", sample_waveforms_0_3());
  return out;
}

}  // namespace orrery::test
