#include "controller/daemon/answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/clock.h"

namespace orrery::daemon {
namespace {

constexpr size_t kFlowsShown = 4096;  // in a list for people
constexpr const char* kDeviceTrafficReason =
    "its communicator may also send from the GPU, without the CPU (GIN): that part is neither seen nor planned";

const char* method_name(planner::Method method) {
  switch (method) {
    case planner::Method::kNone:
      return "none";
    case planner::Method::kEdgeColouring:
      return "edge-colouring";
    case planner::Method::kMinMax:
      return "min-max";
  }
  std::abort();
}

std::string human_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace

msg::Response Answers::answer(const msg::Request& request) {
  switch (request.kind) {
    case msg::Request::Kind::kPlanList:
      return plan_list();
    case msg::Request::Kind::kFlowExplain:
      return explain(request.flow_id);
    case msg::Request::Kind::kLinkList:
      return links();
    case msg::Request::Kind::kJobList:
      return jobs();
    case msg::Request::Kind::kHostList:
      return hosts();
    case msg::Request::Kind::kSwitchList:
      return switches();
    case msg::Request::Kind::kHealth:
      return health();
    case msg::Request::Kind::kForecastList:
      return forecasts();
    case msg::Request::Kind::kFlowList:
      return flow_list();
    case msg::Request::Kind::kNicForecasts:
      return core_.expectations_.list();
  }
  return msg::RequestError{"unknown question; use the orreryctl of the controller's version"};
}

std::string Answers::host_of(const IpAddress& address) const {
  const fabric::Nic* nic = core_.fabric_.find_nic(address);
  return nic == nullptr ? std::string() : core_.fabric_.node(nic->host).name;
}

uint64_t Answers::planned_bytes(fabric::LinkId link) const {
  const auto& bytes = core_.in_force_.plan->link_bytes;
  return link < bytes.size() ? bytes[link] : 0;
}

msg::PlanList Answers::plan_list() {
  const Core::PlanInForce& plan = core_.in_force_;
  msg::PlanList list{.term = core_.rollout_.term(),
                     .revision = core_.rollout_.revision().number,
                     .driver = std::string(core_.driver_.name())};
  list.method = method_name(plan.plan->method);
  fabric::LinkId busiest = 0;
  const auto drain = [&](fabric::LinkId link) {
    return static_cast<double>(planned_bytes(link)) / static_cast<double>(core_.fabric_.link(link).rate_bps);
  };
  for (fabric::LinkId link = 0; link < core_.fabric_.links().size(); ++link)
    if (drain(link) > drain(busiest)) busiest = link;
  list.max_load_bytes = planned_bytes(busiest);
  list.lower_bound_bytes = plan.plan->optimal()
                               ? list.max_load_bytes
                               : static_cast<uint64_t>(static_cast<double>(plan.plan->lower_bound_ns) *
                                                       static_cast<double>(core_.fabric_.link(busiest).rate_bps) / 8e9);
  list.bounds = bounds();
  list.planned_at_tai_ns = plan.planned_at_tai_ns;
  list.planning_ns = plan.planning_ns;
  for (size_t i = 0; i < plan.plan->flows.size(); ++i) list.flows.push_back(planned_flow(i));
  return list;
}

msg::PlanBounds Answers::bounds() const {
  const planner::Plan& plan = *core_.in_force_.plan;
  return {plan.max_drain_ns, plan.lower_bound_ns, plan.fluid_bound_ns};
}

std::vector<LiveFlow*> Answers::live_flows(size_t index) {
  const DemandKey& key = core_.in_force_.demands.keys[index];
  if (key.is_pair()) return core_.flows_.of_pair(std::nullopt, key.tuple.src, key.tuple.dst);
  return core_.flows_.of_tuple(key.tuple);
}

msg::PlannedFlow Answers::planned_flow(size_t index) {
  const planner::FlowDemand& demand = core_.in_force_.demands.snapshot.flows[index];
  const planner::FlowAssignment& assigned = core_.in_force_.plan->flows[index];
  const std::vector<LiveFlow*> live = live_flows(index);
  msg::PlannedFlow flow{.flow_id = demand.flow_id,
                        .comm_id = demand.comm_id,
                        .src_host = host_of(demand.src),
                        .dst_host = host_of(demand.dst)};
  flow.tuple = live.empty() ? FiveTuple{demand.src, demand.dst, 0, 0, 6} : live.front()->tuple;
  flow.path = core_.fabric_.path_names(assigned.path);
  if (!assigned.backups.empty()) flow.backup = core_.fabric_.path_names(assigned.backups.front());
  flow.bytes_per_round = demand.bytes;
  flow.release_offset_ns = core_.release_offset_ns(index);
  flow.pace_bps = assigned.pace_bps;
  using State = msg::PlannedFlow::State;
  flow.state = !demand.fixed.empty()                         ? State::kFixed
               : !live.empty()                               ? State::kAlive
               : core_.rollout_.acknowledged(demand.flow_id) ? State::kAcknowledged
                                                             : State::kPlanned;
  if (!live.empty()) {
    const bool on_path =
        std::all_of(live.begin(), live.end(), [&](LiveFlow* one) { return core_.path_of(*one) == assigned.path; });
    flow.on_path = on_path ? msg::PlannedFlow::OnPath::kYes : msg::PlannedFlow::OnPath::kNo;
  }
  return flow;
}

msg::LiveFlow Answers::live_flow(LiveFlow& flow) {
  msg::LiveFlow out{.tuple = flow.tuple,
                    .src_host = host_of(flow.tuple.src),
                    .dst_host = host_of(flow.tuple.dst),
                    .comm_id = flow.comm_id};
  const auto path = core_.path_of(flow);
  if (path) out.path = core_.fabric_.path_names(*path);
  auto planned = core_.in_force_.index_by_key.find({flow.tuple});
  if (planned == core_.in_force_.index_by_key.end())
    planned = core_.in_force_.index_by_key.find(pair_key(flow.tuple.src, flow.tuple.dst));
  if (planned != core_.in_force_.index_by_key.end()) {
    const planner::FlowAssignment& assigned = core_.in_force_.plan->flows[planned->second];
    out.flow_id = assigned.flow_id;
    using OnPath = msg::PlannedFlow::OnPath;
    out.on_path = !path ? OnPath::kUnknown : *path == assigned.path ? OnPath::kYes : OnPath::kNo;
  }
  out.tx_bytes = flow.tx_bytes;
  out.queue_pair = flow.queue_pair;
  out.held_ns = flow.held_ns;
  return out;
}

msg::FlowList Answers::flow_list() {
  std::vector<LiveFlow*> all;
  for (auto& [key, flow] : core_.flows_.all()) all.push_back(&flow);
  const size_t shown = std::min(all.size(), kFlowsShown);
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), all.end(),
                    [](const LiveFlow* a, const LiveFlow* b) { return a->tx_bytes > b->tx_bytes; });
  msg::FlowList list{.total = all.size()};
  for (size_t i = 0; i < shown; ++i) list.flows.push_back(live_flow(*all[i]));
  return list;
}

// What other jobs, and what agents can do, make of its release offset.
void Answers::add_times(size_t index, std::vector<std::string>& reasons) const {
  const DemandKey& key = core_.in_force_.demands.keys[index];
  const fabric::Nic* src = core_.fabric_.find_nic(key.tuple.src);
  const Turns::Turn* turn = key.is_pair() && src != nullptr ? core_.turns_.of_host(src->host) : nullptr;
  if (turn != nullptr) reasons.push_back(turn->why);
  if (core_.in_force_.plan->flows[index].release_offset_ns > core_.options_.hold_cap_ns)
    reasons.push_back(fmt::format("Agents hold a send back by at most {} us (plan.hold_cap_us), so it starts then.",
                                  core_.options_.hold_cap_ns / 1000));
}

// Whether some of the bytes may be out of the plan's hands.
void Answers::add_doubts(size_t index, std::vector<std::string>& reasons) {
  for (const LiveFlow* flow : live_flows(index))
    if (flow->queue_pair && !flow->movable())
      reasons.push_back(
          fmt::format("queue pair {} on {} cannot change its path while it runs; a new path is for its next connection",
                      flow->queue_pair->qpn, flow->queue_pair->device));
  const planner::FlowDemand& demand = core_.in_force_.demands.snapshot.flows[index];
  const Communicator* communicator = core_.communicators_.find(demand.comm_id);
  if (communicator != nullptr && communicator->assumed)
    reasons.push_back(fmt::format("its communicator has not sent yet: how much it will is {}",
                                  core_.expectations_.bytes_per_iteration(demand.src) != 0
                                      ? "what a simulation predicted for the NIC"
                                      : "assumed, the same for every pair of a ring"));
  if (communicator != nullptr && communicator->device_traffic) reasons.push_back(kDeviceTrafficReason);
}

msg::Response Answers::explain(uint64_t flow_id) {
  const auto found = core_.in_force_.index.find(flow_id);
  if (found == core_.in_force_.index.end())
    return msg::RequestError{
        fmt::format("no flow {} in the plan; 'orreryctl plan list' shows the ids there are", flow_id)};
  msg::FlowExplanation explanation;
  explanation.flow = planned_flow(found->second);
  explanation.bounds = bounds();
  auto reasons = planner::explain(core_.in_force_.demands.snapshot, *core_.in_force_.plan, flow_id);
  if (reasons) explanation.reasons = *std::move(reasons);
  add_times(found->second, explanation.reasons);
  if (const std::string* refusal = core_.rollout_.refusal(flow_id))
    explanation.reasons.push_back(
        fmt::format("the {} driver cannot carry it out, so it stays unmanaged: {}", core_.driver_.name(), *refusal));
  for (LiveFlow* live : live_flows(found->second)) {
    const auto path = core_.path_of(*live);
    const bool on_path = path == core_.in_force_.plan->flows[found->second].path;
    explanation.live.push_back(live_flow(*live));
    explanation.reasons.push_back(fmt::format("{} has sent {} and goes {}", live->tuple.to_string(),
                                              human_bytes(live->tx_bytes),
                                              on_path ? "the planned path"
                                              : path  ? "another path than planned"
                                                      : "a path the controller cannot tell"));
  }
  add_doubts(found->second, explanation.reasons);
  explanation.hops = hops(core_.in_force_.plan->flows[found->second].path, explanation.flow.tuple);
  return explanation;
}

std::vector<msg::HopExplanation> Answers::hops(const fabric::Path& path, const FiveTuple& tuple) const {
  std::vector<msg::HopExplanation> hops;
  for (const fabric::LinkId link : path) {
    msg::HopExplanation hop{.port = core_.fabric_.link_name(link), .load_bytes = planned_bytes(link)};
    hop.decided_by = decided_by(link, tuple, hop.alternatives);
    hops.push_back(std::move(hop));
  }
  return hops;
}

std::string Answers::decided_by(fabric::LinkId link, const FiveTuple& tuple,
                                std::vector<std::string>& alternatives) const {
  const fabric::NodeId at = core_.fabric_.link(link).from;
  const fabric::Nic* dst = core_.fabric_.find_nic(tuple.dst);
  if (core_.fabric_.node(at).kind == fabric::NodeKind::kHost || dst == nullptr) return "only route";
  const auto group = core_.fabric_.next_hops(at, *dst);
  for (const fabric::LinkId other : group) {
    if (other == link) continue;
    const char* state = core_.fabric_.link(other).up ? "" : ", down";
    alternatives.push_back(
        fmt::format("{} (load {}{})", core_.fabric_.link_name(other), human_bytes(planned_bytes(other)), state));
  }
  if (auto rule = core_.driver_.decided_by(at, tuple)) return *std::move(rule);
  if (group.size() <= 1) return "only route";
  return fmt::format("ECMP member {} of {}", std::find(group.begin(), group.end(), link) - group.begin() + 1,
                     group.size());
}

std::vector<msg::LinkState> Answers::links() const {
  std::vector<msg::LinkState> states;
  const uint64_t now_tai_ns = tai_now_ns();
  for (fabric::LinkId id = 0; id < core_.fabric_.links().size(); ++id) {
    const fabric::Link& link = core_.fabric_.link(id);
    const LinkRecord& record = core_.links_.record(id);
    msg::LinkState state{.port = core_.fabric_.link_name(id),
                         .peer = core_.fabric_.link_name(link.reverse),
                         .up = link.up,
                         .rate_bps = link.rate_bps,
                         .queue_bytes = link.queue_bytes};
    state.utilization = core_.links_.utilization(id, now_tai_ns);
    state.planned_bytes = planned_bytes(id);
    state.tx_bytes = record.tx_bytes;
    state.drops = record.drops;
    state.queue_max_bytes = record.queue_max_bytes;
    state.flows = core_.in_force_.flows_on_link[id];
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<msg::JobState> Answers::jobs() const {
  std::vector<msg::JobState> states;
  for (const auto& [id, c] : core_.communicators_.all()) {
    msg::JobState state{.comm_id = id, .nranks = c.nranks, .announced = static_cast<uint32_t>(c.ranks.size())};
    state.hosts.resize(c.nranks);
    for (const auto& [rank, member] : c.ranks) state.hosts[rank] = member.host;
    state.collectives = c.collectives;
    state.bytes_total = c.bytes_total;
    state.plan_hits = c.hits;
    state.plan_misses = c.misses;
    state.last_op = c.last.op;
    state.last_bytes = c.last.bytes;
    state.device_traffic = c.device_traffic;
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<msg::HostState> Answers::hosts() const {
  std::vector<msg::HostState> states;
  for (const auto& [name, host] : core_.hosts_.all()) {
    msg::HostState state{.host = name,
                         .connected = host.connected,
                         .last_seen_tai_ns = host.last_seen_tai_ns,
                         .processes = host.processes};
    const auto rolled_out = core_.rollout_.hosts().find(name);
    if (rolled_out != core_.rollout_.hosts().end()) {
      state.plan_revision = rolled_out->second.acknowledged.number;
      state.plan_entries = rolled_out->second.entries;
      state.refusal = rolled_out->second.refusal;
    }
    state.windows = host.windows;
    state.windows_lost = host.windows_lost;
    state.events_lost = host.losses.ring_dropped + host.losses.no_ring + host.losses.no_slot;
    state.clock_offset_ns = host.clock.offset_ns;
    state.clock_synchronized = host.clock.synchronized;
    state.features = host.features;
    state.layers = host.layers;
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<msg::SwitchState> Answers::switches() const {
  std::vector<msg::SwitchState> states;
  for (const auto& [name, record] : core_.switches_) {
    msg::SwitchState state{.switch_name = name,
                           .connected = record.connected,
                           .last_seen_tai_ns = record.last_seen_tai_ns,
                           .rule_revision = record.rule_revision,
                           .rules = record.rules,
                           .table_size = record.table_size};
    for (const fabric::LinkId link : core_.fabric_.node(*core_.fabric_.find_node(name)).egress) {
      ++state.ports;
      state.ports_up += core_.fabric_.link(link).up;
    }
    state.refusal = record.refusal;
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<msg::ForecastState> Answers::forecasts() const {
  std::vector<msg::ForecastState> states;
  for (const auto& [id, c] : core_.communicators_.all()) {
    const auto prediction = core_.forecaster_.predict(id);
    if (!prediction) continue;
    const forecast::Score score = core_.forecaster_.score(id);
    states.push_back({id, prediction->next.op, prediction->next.bytes, prediction->window_start_ns,
                      prediction->window_end_ns, prediction->period_ns, prediction->jitter_ns, prediction->confidence,
                      score.hits, score.misses});
  }
  return states;
}

msg::Health Answers::health() const {
  msg::Health health{.version = core_.options_.version,
                     .started_tai_ns = core_.started_tai_ns_,
                     .term = core_.rollout_.term(),
                     .revision = core_.rollout_.revision().number};
  health.driver = core_.driver_.name();
  health.hosts_connected = static_cast<uint32_t>(core_.hosts_.connected_count());
  health.hosts_known = static_cast<uint32_t>(core_.hosts_.all().size());
  health.switches_known = static_cast<uint32_t>(core_.switches_.size());
  for (const auto& [name, record] : core_.switches_) health.switches_connected += record.connected;
  health.plan_hits = core_.plan_hits_;
  health.plan_misses = core_.plan_misses_;
  add_plan_problems(health.problems);
  add_peer_problems(health.problems);
  add_fabric_problems(health.problems);
  add_host_problems(health.problems);
  add_job_problems(health.problems);
  if (core_.outside_problems_)
    for (std::string& problem : core_.outside_problems_(now_ns_)) health.problems.push_back(std::move(problem));
  return health;
}

}  // namespace orrery::daemon
