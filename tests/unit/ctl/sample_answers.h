// Answers of a small, busy fabric, for the tests of rendering and of the command line.
#pragma once

#include <netinet/in.h>

#include "common/abi/event_abi.h"
#include "common/msg/control_messages.h"

namespace orrery::ctl::sample {

inline constexpr uint64_t kNowTaiNs = 1'700'000'000'000'000'000;

inline msg::PlannedFlow flow() {
  msg::PlannedFlow flow;
  flow.flow_id = 7;
  flow.comm_id = 0xabcdef0123456789;
  flow.src_host = "h1";
  flow.dst_host = "h5";
  flow.tuple = {IpAddress::from_v4(0x0a000101), IpAddress::from_v4(0x0a000201), 40001, 5000, IPPROTO_TCP};
  flow.path = {"h1:eth0", "leaf1:p6", "spine2:p2", "leaf2:p1"};
  flow.backup = {"h1:eth0", "leaf1:p7", "spine3:p2", "leaf2:p1"};
  flow.bytes_per_round = 15'728'640;
  flow.release_offset_ns = 250'000;
  flow.pace_bps = 50'000'000;
  flow.state = msg::PlannedFlow::State::kAlive;
  flow.on_path = msg::PlannedFlow::OnPath::kYes;
  return flow;
}

inline msg::PlanList plan() {
  msg::PlanList plan;
  plan.term = 3;
  plan.revision = 17;
  plan.driver = "ebpf";
  plan.method = "edge-colouring";
  plan.max_load_bytes = plan.lower_bound_bytes = 15'728'640;
  plan.bounds = {1'258'291'200, 1'258'291'200, 1'258'291'200};
  plan.planned_at_tai_ns = kNowTaiNs - 2'000'000'000;
  plan.planning_ns = 1'200'000;
  plan.flows = {flow(), flow()};
  plan.flows[1].flow_id = 0x123456789abcdef0;
  plan.flows[1].backup.clear();
  plan.flows[1].state = msg::PlannedFlow::State::kPlanned;
  plan.flows[1].on_path = msg::PlannedFlow::OnPath::kNo;
  plan.flows[1].pace_bps = 0;
  return plan;
}

inline msg::FlowExplanation explanation() {
  msg::FlowExplanation explanation;
  explanation.flow = flow();
  explanation.reasons = {"the ring sends 15 MiB per round from h1 to h5", "spine2 was the least loaded of 4"};
  explanation.hops = {{"leaf1:p6", "rule 12", 15'728'640, {"leaf1:p5 (load 30 MiB)", "leaf1:p7 (load 30 MiB)"}},
                      {"spine2:p2", "only route", 15'728'640, {}}};
  explanation.bounds = plan().bounds;
  return explanation;
}

inline msg::LiveFlow queue_pair() {
  msg::LiveFlow live;
  live.tuple = {IpAddress::from_v4(0x0a000101), IpAddress::from_v4(0x0a000201), 49441, 4791, IPPROTO_UDP};
  live.src_host = "h1";
  live.dst_host = "h5";
  live.comm_id = 0xabcdef0123456789;
  live.flow_id = 7;
  live.tx_bytes = 15'728'640;
  live.path = flow().path;
  live.on_path = msg::PlannedFlow::OnPath::kYes;
  live.held_ns = 250'000;
  live.queue_pair = msg::QueuePair{
      .qpn = 17, .dest_qpn = 18, .device = "rxe0", .flags = ORRERY_QP_CAN_MOVE, .moves = 2, .deferred_sends = 1200};
  return live;
}

inline msg::FlowList flow_list() {
  msg::LiveFlow connection, fixed = queue_pair();
  connection.tuple = flow().tuple;
  connection.src_host = "h1";
  connection.dst_host = "h5";
  fixed.on_path = msg::PlannedFlow::OnPath::kNo;
  fixed.queue_pair->flags = 0;
  fixed.queue_pair->moves = 0;
  fixed.queue_pair->drained_early = 3;
  return {5, {queue_pair(), fixed, connection}};
}

inline std::vector<msg::LinkState> links() {
  msg::LinkState busy{"leaf1:p6", "spine2:p1",   true, 100'000'000, 262'144, 0.97,
                      15'728'640, 1'000'000'000, 3,    131'072,     1};
  msg::LinkState down{"leaf1:p5", "spine1:p1", false, 100'000'000, 262'144, 0, 0, 0, 0, 0, 0};
  return {down, busy};
}

inline std::vector<msg::JobState> jobs() {
  return {{0xabcdef0123456789, 4, 3, {"h1", "h5", "", "h9"}, 1234, 5'000'000'000, 99, 1, 1, 8'388'608}};
}

inline std::vector<msg::HostState> hosts() {
  msg::HostState good{"h1", true, kNowTaiNs - 100'000'000, 2, 17, 8, 4000, 0, 0, -350, true, ""};
  msg::HostState bad{"h2", false, 0, 0, 0, 0, 0, 5, 0, 0, false, "it runs schema 2; install the same release on both"};
  good.features = {"preload", "roce"};
  good.layers = {2, 2, 1, 2, 0};
  return {good, bad};
}

inline std::vector<msg::SwitchState> switches() {
  return {{"leaf1", true, kNowTaiNs, 17, 12, 16384, 7, 8, ""}};
}

inline std::vector<msg::ForecastState> forecasts() {
  return {{0xabcdef0123456789, 1, 8'388'608, kNowTaiNs + 5'000'000, kNowTaiNs + 7'000'000, 160'000'000, 900'000, 0.93,
           90, 10}};
}

inline msg::NicForecasts nic_forecasts() {
  using Verdict = msg::NicForecast::Verdict;
  return {.source = "orrery, fluid engine, seed 1: a ring",
          .topology = "leaf-spine-4x4x16",
          .same_fabric = true,
          .jobs = {{"train", 320'000'000}},
          .total = 3,
          .nics = {{"h1", "eth0", "train", 3'932'160, 98'304'000, 98'304'000, 70'000'000, 72'000'000, Verdict::kSlower},
                   {"h2", "eth0", "", 0, 0, 0, 5'000'000, 6'000'000, Verdict::kNotPredicted}}};
}

inline msg::Health health() {
  msg::Health health;
  health.version = "0.1.0";
  health.started_tai_ns = kNowTaiNs - 300'000'000'000;
  health.term = 3;
  health.revision = 17;
  health.driver = "ebpf";
  health.hosts_connected = health.hosts_known = 16;
  health.switches_connected = health.switches_known = 8;
  health.plan_hits = 99;
  health.plan_misses = 1;
  return health;
}

}  // namespace orrery::ctl::sample
