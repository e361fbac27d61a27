#include "controller/daemon/core.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "common/base/clock.h"
#include "controller/daemon/answers.h"
#include "controller/daemon/rounds.h"

namespace orrery::daemon {
namespace {

const std::vector<double> kSecondBuckets = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1};
constexpr double kNsPerSecond = 1e9;
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kSavePeriodNs = 2'000'000'000;  // of what was learned; plans are saved when they are in force
constexpr uint64_t kExpireNs = 100 * kNsPerMs;
constexpr uint64_t kRoundsNs = 1'000 * kNsPerMs;
constexpr uint64_t kMovePatienceNs = 60'000 * kNsPerMs;

bool same(const drivers::Flow& a, const drivers::Flow& b) {
  return a.flow_id == b.flow_id && a.comm_id == b.comm_id && a.tuple == b.tuple && a.path == b.path &&
         a.backups == b.backups && a.release_offset_ns == b.release_offset_ns && a.pace_bps == b.pace_bps;
}

drivers::SwitchInfo info_of(const msg::SwitchHello& hello) {
  return {hello.switch_name, hello.hash_function, hello.hash_seed, hello.ports,
          hello.table_size,  hello.mask_limit,    hello.features};
}

}  // namespace

Core::Core(CoreParts parts, CoreOptions options, uint64_t now_ns)
    : fabric_(parts.fabric),
      driver_(parts.driver),
      options_(std::move(options)),
      save_(std::move(parts.save)),
      outside_problems_(std::move(parts.outside_problems)),
      started_tai_ns_(tai_now_ns()),
      hosts_(parts.fabric, now_ns),
      communicators_(parts.fabric),
      flows_(parts.fabric),
      links_(parts.fabric),
      expectations_(parts.fabric, parts.metrics),
      rollout_(parts.fabric, parts.driver, parts.agents, parts.metrics, options_.rollout, parts.term),
      windows_received_(parts.metrics.counter("orrery_daemon_windows_received_total", "Intent windows taken in")),
      windows_lost_(
          parts.metrics.counter("orrery_daemon_windows_lost_total", "Intent windows missing in the agents' sequences")),
      forecast_hits_(parts.metrics.counter("orrery_forecast_operations_hit_total", "Operations that came as forecast")),
      forecast_misses_(parts.metrics.counter("orrery_forecast_operations_missed_total",
                                             "Operations that came otherwise than forecast")),
      hits_metric_(parts.metrics.counter("orrery_daemon_plan_hits_total",
                                         "Collectives that came within their forecast window on their planned paths")),
      misses_metric_(parts.metrics.counter("orrery_daemon_plan_misses_total",
                                           "Collectives that were forecast and came otherwise or elsewhere")),
      moves_metric_(parts.metrics.counter("orrery_daemon_moved_queue_pairs_total",
                                          "Queue pairs that took another path while they ran")),
      planning_seconds_(
          parts.metrics.histogram("orrery_planner_planning_duration_seconds", "Time the planner took", kSecondBuckets)),
      announcement_seconds_(parts.metrics.histogram(
          "orrery_daemon_announcement_delay_seconds",
          "From a communicator's last announcement to its plan leaving for the hosts", kSecondBuckets)),
      planned_flows_(parts.metrics.gauge("orrery_planner_planned_flows", "Flows in the plan")) {
  for (const fabric::Node& node : fabric_.nodes())
    if (node.kind == fabric::NodeKind::kSwitch) switches_[node.name] = {};
  communicators_.expect([this](const IpAddress& address) { return expectations_.bytes_per_iteration(address); });
  in_force_.plan = std::make_shared<planner::Plan>();
  in_force_.flows_on_link.resize(fabric_.links().size());
}

void Core::want_plan(uint64_t due_ns) {
  plan_due_ns_ = std::min(plan_due_ns_, due_ns);
}

void Core::want(Change change, uint64_t now_ns) {
  if (change == Change::kMembership) want_plan(now_ns);
  if (change == Change::kUsage) want_plan(now_ns + options_.coalesce_ns);
}

void Core::on_window(const msg::IntentWindow& window, uint64_t now_ns) {
  const uint64_t lost_before = hosts_.all().find(window.host)->second.windows_lost;
  const HostBook::Arrival arrival = hosts_.on_window(window, tai_now_ns());
  if (arrival == HostBook::Arrival::kRepeated) return;
  windows_received_.Increment();
  const uint64_t lost = hosts_.all().find(window.host)->second.windows_lost - lost_before;
  windows_lost_.Increment(static_cast<double>(lost));
  if (lost != 0) flows_.doubt_host(window.host, now_ns);  // the end of some may have been in a lost window
  if (arrival == HostBook::Arrival::kRestarted) {
    communicators_.on_agent_restarted(window.host);
    if (flows_.forget_hosts({window.host})) want(Change::kUsage, now_ns);
  }
  for (const msg::CommunicatorEvent& event : window.communicators) {
    const Change change = communicators_.on_event(window.host, event, now_ns);
    if (change == Change::kMembership && event.kind != msg::CommunicatorEvent::Kind::kGone) announced_ns_ = now_ns;
    // Nobody waits for the end of a communicator.
    want(event.kind == msg::CommunicatorEvent::Kind::kGone ? std::min(change, Change::kUsage) : change, now_ns);
  }
  for (const msg::FlowReport& report : window.flows) {
    if (report.comm_id != 0) communicators_.touch(report.comm_id, now_ns);
    if (flows_.on_report(window.host, report, now_ns)) want(Change::kUsage, now_ns);
    const bool born = report.kind == msg::FlowReport::Kind::kBorn;
    if (born && report.queue_pair && report.queue_pair->moves != 0) moves_metric_.Increment();
  }
  for (const msg::Intent& intent : window.intents) {
    const Observation observation = communicators_.on_intent(window.host, intent, now_ns);
    want(observation.change, now_ns);
    if (observation.counts) observe(intent, observation);
  }
}

void Core::observe(const msg::Intent& intent, const Observation& observation) {
  const auto as_forecast =
      forecaster_.observe(intent.comm_id, {intent.op, intent.bytes, intent.peer}, intent.called_tai_ns);
  if (!as_forecast) return;  // nothing was forecast: neither hit nor miss
  (*as_forecast ? forecast_hits_ : forecast_misses_).Increment();
  if (observation.pairs.empty()) return;  // uses no link, as far as is known: no plan can be right or wrong about it
  const bool hit = *as_forecast && took_planned_paths(intent.comm_id, observation.pairs);
  ++(hit ? plan_hits_ : plan_misses_);
  (hit ? hits_metric_ : misses_metric_).Increment();
  Communicator& communicator = *communicators_.find(intent.comm_id);
  ++(hit ? communicator.hits : communicator.misses);
}

bool Core::took_planned_paths(uint64_t comm_id, const std::vector<AddressPair>& pairs) {
  for (const AddressPair& pair : pairs) {
    const DemandKey key = pair_key(pair.first, pair.second);
    if (in_force_.demands.adopted.contains(key))
      return false;  // the plan follows the flow there, not the flow the plan
    const fabric::Path* planned = planned_path(key);
    const auto flows = flows_.of_pair(comm_id, pair.first, pair.second);
    if (planned == nullptr || planned->empty() || flows.empty()) return false;  // not seen is not proven
    for (LiveFlow* flow : flows)
      if (path_of(*flow) != *planned) return false;
  }
  return true;
}

const fabric::Path* Core::planned_path(const DemandKey& key) const {
  const auto found = in_force_.index_by_key.find(key);
  return found == in_force_.index_by_key.end() ? nullptr : &in_force_.plan->flows[found->second].path;
}

std::optional<fabric::Path> Core::path_of(LiveFlow& flow) {
  if (flow.path_epoch == path_epoch_) return flow.path;
  flow.path = driver_.path_of(flow.tuple);
  if (!flow.path) flow.path = fabric_.ecmp_path(flow.tuple);
  flow.path_epoch = path_epoch_;
  return flow.path;
}

void Core::on_agent_connected(const msg::AgentHello& hello, uint64_t now_ns) {
  spdlog::info("agent of host {} (version {}) connected", hello.host, hello.version);
  on_agent_hello(hello, now_ns);
  rollout_.on_agent_connected(hello.host, now_ns);
}

void Core::on_agent_hello(const msg::AgentHello& hello, uint64_t now_ns) {
  if (hosts_.on_hello(hello, tai_now_ns())) want(Change::kUsage, now_ns);
}

void Core::on_agent_gone(const std::string& host, uint64_t now_ns) {
  spdlog::warn("agent of host {} is gone; its flows are unmanaged until it returns", host);
  hosts_.on_gone(host, now_ns);
  communicators_.on_agent_gone(host);
  rollout_.on_agent_gone(host, now_ns);
}

void Core::on_agent_ack(const msg::Ack& ack, uint64_t now_ns) {
  rollout_.on_ack(ack, now_ns);
}

void Core::on_switch_connected(const msg::SwitchHello& hello, uint64_t now_ns) {
  spdlog::info("switch {} (version {}) connected", hello.switch_name, hello.version);
  on_switch_hello(hello, now_ns);
  switches_[hello.switch_name].rules = 0;
  if (drivers::SwitchEvents* events = driver_.switch_events()) events->on_switch_connected(info_of(hello));
  ++path_epoch_;
  rolled_out_.clear();  // what could not go through this switch before may now
  failed_.clear();
  want(Change::kUsage, now_ns);
}

void Core::on_switch_hello(const msg::SwitchHello& hello, uint64_t) {
  SwitchRecord& record = switches_[hello.switch_name];
  record.connected = true;
  record.last_seen_tai_ns = tai_now_ns();
  record.table_size = hello.table_size;
}

void Core::on_switch_gone(const std::string& name, uint64_t) {
  spdlog::warn("the agent of switch {} is gone; it forwards by what it has until the lease ends, then by ECMP", name);
  switches_[name].connected = false;
  if (drivers::SwitchEvents* events = driver_.switch_events()) events->on_switch_gone(name);
  ++path_epoch_;
}

void Core::on_switch_ack(const msg::Ack& ack, uint64_t) {
  SwitchRecord& record = switches_[ack.name];
  if (ack.accepted) record.rule_revision = ack.revision;
  record.rules = ack.entries;
  record.refusal = ack.accepted ? "" : ack.reason;
  if (drivers::SwitchEvents* events = driver_.switch_events())
    events->on_switch_ack({ack.name, {ack.term, ack.revision}, ack.accepted, ack.reason, ack.entries});
  ++path_epoch_;
}

void Core::on_telemetry(const msg::SwitchTelemetry& telemetry, uint64_t now_ns) {
  switches_[telemetry.switch_name].last_seen_tai_ns = tai_now_ns();
  for (const msg::PathEvent& event : telemetry.events)
    spdlog::warn("switch {}: {} {}", telemetry.switch_name, event.port, event.detail);
  if (!links_.on_telemetry(telemetry)) return;
  ++path_epoch_;
  want_plan(now_ns);
}

void Core::step(uint64_t now_ns) {
  rollout_.poll(now_ns);
  expire(now_ns);
  if (now_ns >= rounds_due_ns_) look_at_rounds(now_ns);
  if (now_ns >= plan_due_ns_) plan(now_ns);
  if (options_.turns && now_ns >= turns_.due_ns()) look_at_turns(now_ns);
  settle(now_ns);
  expectations_.sample(flows_.sent_bytes(), now_ns);
  if (communicators_.version() != saved_version_ && now_ns >= saved_ns_ + kSavePeriodNs) save(now_ns);
}

int Core::wait_ms(uint64_t now_ns, int limit) const {
  if (plan_due_ns_ <= now_ns) return 0;
  return static_cast<int>(
      std::min<uint64_t>((plan_due_ns_ - now_ns + kNsPerMs - 1) / kNsPerMs, static_cast<uint64_t>(limit)));
}

void Core::expire(uint64_t now_ns) {
  if (now_ns < expired_ns_ + kExpireNs) return;  // it looks at every flow and rank
  expired_ns_ = now_ns;
  std::vector<std::string> lost;  // gone for a lease after the one in which it was silent
  for (const auto& [name, host] : hosts_.all())
    if (!host.connected && now_ns >= host.gone_since_ns + options_.rollout.lease_ns) lost.push_back(name);
  const std::vector<uint64_t> ended = communicators_.expire(now_ns, lost);
  for (const uint64_t id : ended) forecaster_.forget(id);
  const bool doubts_ended = flows_.expire(now_ns), left = flows_.forget_hosts(lost);
  if (!ended.empty() || doubts_ended || left) want(Change::kUsage, now_ns);
}

void Core::plan(uint64_t now_ns) {
  plan_due_ns_ = UINT64_MAX;
  const drivers::Capabilities capable = driver_.capabilities();
  DemandRules rules = {.moves_live_flows = capable.moves_live_flows || !capable.applies,
                       .host_may_move = [&](LiveFlow& flow) { return may_move(flow, now_ns); },
                       .options = options_.planner};
  rules.options.max_offset_ns = std::min(rules.options.max_offset_ns, options_.hold_cap_ns);
  const auto current = [this](uint64_t flow_id) -> fabric::Path {
    const auto found = in_force_.index.find(flow_id);
    if (found == in_force_.index.end()) return {};
    const fabric::Path& path = in_force_.plan->flows[found->second].path;
    return is_usable(path) ? path : fabric::Path();
  };
  Demands demands = build_demands(
      fabric_, communicators_, flows_, flow_ids_, rules, [this](LiveFlow& flow) { return path_of(flow); }, current);
  find_adopted(demands);
  const uint64_t begin_ns = monotonic_now_ns();
  auto made = cache_.plan(demands.snapshot);
  const uint64_t planning_ns = monotonic_now_ns() - begin_ns;
  planning_seconds_.Observe(static_cast<double>(planning_ns) / kNsPerSecond);
  if (!made) {
    planning_problem_ = made.error().message;
    spdlog::error("cannot plan: {}; the last plan stays in force", planning_problem_);
    return;
  }
  planning_problem_.clear();
  adopt(std::move(demands), *std::move(made), planning_ns);
  roll_out(now_ns);
}

void Core::roll_out(uint64_t now_ns) {
  std::vector<drivers::Flow> flows = flows_to_roll_out();
  if (std::equal(flows.begin(), flows.end(), rolled_out_.begin(), rolled_out_.end(), same)) {
    announced_ns_ = 0;
    return;
  }
  if (now_ns < retry_ns_ && std::equal(flows.begin(), flows.end(), failed_.begin(), failed_.end(), same)) {
    want_plan(retry_ns_);  // it would fail again
    return;
  }
  rollout_.start(flows, now_ns);
  rolled_out_ = std::move(flows);
  rolled_out_ns_ = now_ns;
  ++path_epoch_;
}

void Core::look_at_rounds(uint64_t now_ns) {
  rounds_due_ns_ = now_ns + kRoundsNs;
  for (CommunicatorRound& round : find_rounds(fabric_, communicators_, forecaster_))
    want(communicators_.set_round(round.comm_id, std::move(round.calls)), now_ns);
}

void Core::look_at_turns(uint64_t now_ns) {
  const auto path_of = [this](const AddressPair& pair) { return planned_path(pair_key(pair.first, pair.second)); };
  const auto keeps_time = [this](const std::string& host) {
    const auto found = hosts_.all().find(host);
    return found != hosts_.all().end() && !found->second.clock.release_suspended;
  };
  const Result<Jobs> jobs = find_jobs({fabric_, communicators_, forecaster_, path_of, keeps_time});
  std::vector<uint64_t> room_ns(jobs ? jobs->jobs.size() : 0, options_.hold_cap_ns);
  for (size_t i = 0; jobs && !room_ns.empty() && i < in_force_.plan->flows.size(); ++i) {
    const fabric::Nic* src = fabric_.find_nic(in_force_.demands.snapshot.flows[i].src);
    if (src == nullptr || jobs->of_host[src->host] == fabric::kNone) continue;
    const uint64_t stagger_ns = std::min(in_force_.plan->flows[i].release_offset_ns, options_.hold_cap_ns);
    uint64_t& room = room_ns[jobs->of_host[src->host]];
    room = std::min(room, options_.hold_cap_ns - stagger_ns);
  }
  const bool changed = turns_.look(fabric_, jobs, room_ns, now_ns);
  if (changed && now_ns >= retry_ns_) roll_out(now_ns);
}

uint64_t Core::release_offset_ns(size_t index) const {
  const DemandKey& key = in_force_.demands.keys[index];
  const fabric::Nic* src = fabric_.find_nic(key.tuple.src);
  const uint64_t wait_ns = key.is_pair() && src != nullptr ? turns_.wait_ns(src->host) : 0;
  return std::min(in_force_.plan->flows[index].release_offset_ns + wait_ns, options_.hold_cap_ns);
}

bool Core::is_usable(const fabric::Path& path) const {
  return std::all_of(path.begin(), path.end(), [this](fabric::LinkId link) { return fabric_.link(link).usable(); });
}

// A queue pair moves at a quiet moment; one that has not found any for so long counts as one that cannot.
bool Core::may_move(LiveFlow& flow, uint64_t now_ns) {
  if (!flow.movable()) return false;
  if (now_ns < rolled_out_ns_ + kMovePatienceNs) return true;
  const fabric::Path* planned = planned_path(pair_key(flow.tuple.src, flow.tuple.dst));
  return planned == nullptr || !is_usable(*planned) || path_of(flow) == *planned;
}

void Core::find_adopted(Demands& demands) const {
  for (size_t i = 0; i < demands.keys.size(); ++i) {
    const fabric::Path& fixed = demands.snapshot.flows[i].fixed;
    if (fixed.empty()) continue;
    const fabric::Path* planned = planned_path(demands.keys[i]);
    const bool chosen = planned != nullptr && *planned == fixed && !in_force_.demands.adopted.contains(demands.keys[i]);
    if (!chosen) demands.adopted.insert(demands.keys[i]);
  }
}

void Core::adopt(Demands demands, std::shared_ptr<const planner::Plan> plan, uint64_t planning_ns) {
  in_force_.demands = std::move(demands);
  in_force_.plan = std::move(plan);
  in_force_.index.clear();
  in_force_.index_by_key.clear();
  std::fill(in_force_.flows_on_link.begin(), in_force_.flows_on_link.end(), 0);
  for (size_t i = 0; i < in_force_.plan->flows.size(); ++i) {
    in_force_.index[in_force_.plan->flows[i].flow_id] = i;
    in_force_.index_by_key[in_force_.demands.keys[i]] = i;
    for (const fabric::LinkId link : in_force_.plan->flows[i].path) ++in_force_.flows_on_link[link];
  }
  in_force_.planned_at_tai_ns = tai_now_ns();
  in_force_.planning_ns = planning_ns;
  flow_ids_.keep_only(in_force_.demands.keys);
  planned_flows_.Set(static_cast<double>(in_force_.plan->flows.size()));
}

std::vector<drivers::Flow> Core::flows_to_roll_out() const {
  std::vector<drivers::Flow> flows;
  for (size_t i = 0; i < in_force_.plan->flows.size(); ++i) {
    const planner::FlowDemand& demand = in_force_.demands.snapshot.flows[i];
    const planner::FlowAssignment& assigned = in_force_.plan->flows[i];
    const DemandKey& key = in_force_.demands.keys[i];
    const bool exists = !key.is_pair();
    if (exists && !demand.fixed.empty()) continue;  // stays where it is; nobody has to do anything
    drivers::Flow flow{.flow_id = demand.flow_id, .comm_id = demand.comm_id, .src = demand.src, .dst = demand.dst};
    flow.tuple = exists ? key.tuple : FiveTuple{demand.src, demand.dst, 0, 0, IPPROTO_TCP};
    flow.path = assigned.path;
    flow.backups = assigned.backups;
    flow.release_offset_ns = release_offset_ns(i);
    flow.pace_bps = assigned.pace_bps;
    flow.protocol = flow.tuple.protocol;
    flows.push_back(flow);
    // One path for the pair, whichever protocol its bytes take.
    if (exists || !speaks_roce(demand.src) || !speaks_roce(demand.dst)) continue;
    flow.protocol = flow.tuple.protocol = IPPROTO_UDP;
    flows.push_back(std::move(flow));
  }
  return flows;
}

bool Core::speaks_roce(const IpAddress& address) const {
  const fabric::Nic* nic = fabric_.find_nic(address);
  return nic != nullptr && hosts_.has_roce(fabric_.node(nic->host).name);
}

void Core::settle(uint64_t now_ns) {
  for (const rollout::Outcome& outcome : rollout_.take_outcomes()) {
    ++path_epoch_;
    if (outcome.committed && !outcome.rollback) {
      rollout_problem_.clear();
      save(now_ns);
    }
    if (outcome.committed) continue;
    rollout_problem_ = fmt::format("plan {} was taken back: {}", outcome.revision.number, outcome.reason);
    if (!outcome.rollback) failed_ = std::exchange(rolled_out_, {});
    retry_ns_ = now_ns + options_.retry_ns;
    want_plan(retry_ns_);
  }
  if (announced_ns_ != 0 && !rollout_.in_network()) {
    announcement_seconds_.Observe(static_cast<double>(monotonic_now_ns() - announced_ns_) / kNsPerSecond);
    announced_ns_ = 0;
  }
}

void Core::save(uint64_t now_ns) {
  saved_ns_ = now_ns;
  saved_version_ = communicators_.version();
  if (!save_) return;
  state::SavedState saved;
  saved.next_flow_id = flow_ids_.next();
  for (size_t i = 0; i < in_force_.plan->flows.size(); ++i) {
    const planner::FlowDemand& demand = in_force_.demands.snapshot.flows[i];
    saved.flows.push_back({demand.flow_id, demand.comm_id, in_force_.demands.keys[i].tuple,
                           fabric_.path_names(in_force_.plan->flows[i].path), demand.bytes});
  }
  communicators_.save(saved);
  save_(std::move(saved));
}

void Core::restore(const state::SavedState& saved, uint64_t now_ns) {
  communicators_.restore(saved, now_ns);
  flow_ids_.set_next(saved.next_flow_id);
  auto plan = std::make_shared<planner::Plan>();
  Demands demands;
  for (const state::SavedFlow& flow : saved.flows) {
    fabric::Path path;
    for (const std::string& name : flow.path)
      if (const auto link = fabric_.find_link(name)) path.push_back(*link);
    if (path.size() != flow.path.size()) continue;  // the topology file has changed: planned anew
    const DemandKey key = {flow.tuple};
    flow_ids_.restore(key, flow.flow_id);
    if (flow.tuple.src_port != 0) flows_.restore(flow.tuple, flow.bytes, now_ns);
    demands.keys.push_back(key);
    demands.snapshot.flows.push_back({.flow_id = flow.flow_id,
                                      .comm_id = flow.comm_id,
                                      .src = flow.tuple.src,
                                      .dst = flow.tuple.dst,
                                      .bytes = flow.bytes});
    plan->flows.push_back({.flow_id = flow.flow_id, .path = std::move(path)});
  }
  plan->link_bytes.resize(fabric_.links().size());
  adopt(std::move(demands), std::move(plan), 0);
  if (!in_force_.plan->flows.empty() || !communicators_.all().empty()) {
    spdlog::info("restored {} communicators and {} planned flows of the last run", communicators_.all().size(),
                 in_force_.plan->flows.size());
    want_plan(now_ns);
  }
}

msg::Response Core::answer(const msg::Request& request, uint64_t now_ns) {
  return Answers(*this, now_ns).answer(request);
}

}  // namespace orrery::daemon
