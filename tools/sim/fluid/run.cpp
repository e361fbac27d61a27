#include "tools/sim/fluid/run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/sim/fluid/max_min.h"
#include "tools/sim/fluid/priced_shares.h"

namespace orrery::sim {
namespace {

constexpr double kPsPerSecond = 1e12;
constexpr double kLongest = 1e18;  // ps: eleven days

std::vector<double> capacities(const fabric::Graph& graph) {
  std::vector<double> result;
  for (const fabric::Link& link : graph.links()) result.push_back(static_cast<double>(link.rate_bps));
  return result;
}

std::unique_ptr<Shares> shares_of(const fabric::Graph& graph, const FluidConfig& config) {
  if (config.sharing == Sharing::kMaxMin) return std::make_unique<MaxMin>(capacities(graph), config.tolerance);
  std::vector<PricedShares::LinkShape> links;
  for (const fabric::Link& link : graph.links())
    links.push_back(
        {static_cast<double>(link.rate_bps), link.reverse, graph.node(link.from).kind == fabric::NodeKind::kHost});
  const auto alpha = config.sharing == Sharing::kWindows ? PricedShares::Alpha::kWindows : PricedShares::Alpha::kDcqcn;
  const double ack_part = static_cast<double>(config.control_bytes) /
                          (static_cast<double>(config.payload_bytes + config.header_bytes) * config.ack_every);
  return std::make_unique<PricedShares>(links, alpha, ack_part, config.tolerance);
}

}  // namespace

FluidRun::FluidRun(const fabric::Graph& graph, const Program& program, const FluidConfig& config)
    : program_(program),
      config_(config),
      latency_(graph, config),
      shares_(shares_of(graph, config)),
      rates_(*shares_),
      paths_(program, rates_),
      capacity_(capacities(graph)),
      groups_(paths_.size()),
      qps_(program.qps.size()),
      pending_(program.steps.size()),
      events_(2 * program.messages.size() + program.steps.size() + 2 * config.faults.size(),
              TimeBuckets::Kind::kPopOnly),
      endings_(paths_.size(), TimeBuckets::Kind::kRemovable),
      link_bits_(capacity_.size()),
      slice_(config.recording.slice) {
  for (size_t step = 0; step < pending_.size(); ++step) pending_[step] = program.steps[step].pending;
  result_.released_at.assign(program.messages.size(), kNever);
  result_.delivered_at.assign(program.messages.size(), kNever);
  result_.step_done_at.assign(program.steps.size(), kNever);
  if (slice_ != 0) waves_.resize(capacity_.size());
}

RunResult FluidRun::run(const Watch& watch) {
  PulseClock clock(watch);
  start();
  update_rates();
  for (uint32_t round = 0;; ++round) {
    now_ = std::min(events_.next_time(), endings_.next_time());
    if (now_ == kNever) break;
    while (endings_.next_time() == now_) finish_flows(endings_.pop());
    while (events_.next_time() == now_) dispatch(events_.pop());
    update_rates();
    if (round % 64 == 0) clock.tick([&] { return Pulse{now_, result_.totals.events, result_.totals.delivered_bytes}; });
  }
  return collect();
}

void FluidRun::start() {
  const auto first_fault = static_cast<uint32_t>(2 * program_.messages.size() + program_.steps.size());
  const auto faults = static_cast<uint32_t>(config_.faults.size());
  for (uint32_t i = 0; i < faults; ++i) {
    events_.push(config_.faults[i].at, first_fault + i);
    events_.push(config_.faults[i].at + config_.fault_detection, first_fault + faults + i);
  }
  for (uint32_t step = 0; step < program_.steps.size(); ++step)
    if (program_.steps[step].pending == 0) step_ready(step);
}

void FluidRun::dispatch(uint32_t event) {
  ++result_.totals.events;
  const auto messages = static_cast<uint32_t>(program_.messages.size());
  const auto steps = static_cast<uint32_t>(program_.steps.size());
  const auto faults = static_cast<uint32_t>(config_.faults.size());
  if (event < messages) return deliver(event);
  event -= messages;
  if (event < messages) return complete(program_.messages[event].on_acknowledged);
  event -= messages;
  if (event < steps) return finish_step(event);
  event -= steps;
  event < faults ? fault(event, false) : fault(event - faults, true);
}

// Program.

void FluidRun::complete(const Successors& successors) {
  for (uint32_t i = 0; i < successors.count; ++i) {
    const uint32_t step = program_.successors[successors.first + i];
    if (--pending_[step] == 0) step_ready(step);
  }
}

void FluidRun::step_ready(uint32_t step) {
  const Time delay = delay_of(program_, program_.steps[step], now_);
  if (delay == 0) return finish_step(step);
  events_.push(now_ + delay, static_cast<uint32_t>(2 * program_.messages.size()) + step);
}

void FluidRun::finish_step(uint32_t step) {
  result_.step_done_at[step] = now_;
  const Step& part = program_.steps[step];
  if (part.message != kNone) release_message(part.message);
  complete(part.successors);
}

void FluidRun::release_message(uint32_t message) {
  result_.released_at[message] = now_;
  const uint32_t id = program_.messages[message].qp;
  const QueuePair& pair = program_.qps[id];
  QpState& qp = qps_[id];
  const bool idle = qp.sending == qp.posted;
  while (qp.posted < pair.message_count &&
         result_.released_at[program_.qp_messages[pair.first_message + qp.posted]] != kNever)
    ++qp.posted;
  if (!idle || qp.sending == qp.posted) return;
  const uint32_t group = paths_.of_qp(id);
  advance(group);
  touch(group);
  if (++groups_[group].flows == 1) groups_[group].sent_bits = 0;
  begin_message(id, groups_[group].sent_bits);
}

void FluidRun::deliver(uint32_t message) {
  const Message& what = program_.messages[message];
  result_.delivered_at[message] = now_;
  result_.end = now_;
  ++result_.totals.delivered_messages;
  result_.totals.delivered_bytes += what.bytes;
  if (what.on_acknowledged.count != 0) {
    const uint32_t back = program_.reverse_of[paths_.path(paths_.of_qp(what.qp))];
    events_.push(now_ + latency_.of_ack(program_.paths[back]),
                 static_cast<uint32_t>(program_.messages.size()) + message);
  }
  complete(what.on_delivered);
}

// Flows.

void FluidRun::begin_message(uint32_t id, double from_bits) {
  const QueuePair& pair = program_.qps[id];
  QpState& qp = qps_[id];
  const Message& message = program_.messages[program_.qp_messages[pair.first_message + qp.sending]];
  qp.target = from_bits + 8 * static_cast<double>(latency_.wire_bytes(message.bytes));
  qp.left = qp.right = kNone;
  GroupState& group = groups_[paths_.of_qp(id)];
  group.first = merge(group.first, id);
}

// Less than what a picosecond carries is nothing: times are whole picoseconds.
void FluidRun::finish_flows(uint32_t id) {
  advance(id);
  touch(id);
  GroupState& group = groups_[id];
  const double reached = group.sent_bits + std::max(group.rate / kPsPerSecond, group.sent_bits * 1e-15);
  while (group.first != kNone && qps_[group.first].target <= reached) {
    const uint32_t qp = group.first;
    group.first = merge(qps_[qp].left, qps_[qp].right);
    group.carried += qps_[qp].target - group.sent_bits;
    ++result_.totals.events;
    flow_ends(qp);
  }
}

void FluidRun::flow_ends(uint32_t id) {
  QpState& qp = qps_[id];
  const QueuePair& pair = program_.qps[id];
  const uint32_t message = program_.qp_messages[pair.first_message + qp.sending];
  const uint32_t group = paths_.of_qp(id);
  events_.push(
      now_ + latency_.of_message(program_.paths[paths_.path(group)], program_.messages[message].bytes, pair.pace_bps),
      message);
  ++qp.sending;
  if (qp.sending == qp.posted)
    --groups_[group].flows;
  else
    begin_message(id, qp.target);
}

bool FluidRun::sooner(uint32_t a, uint32_t b) const {
  return qps_[a].target != qps_[b].target ? qps_[a].target < qps_[b].target : a < b;
}

uint32_t FluidRun::merge(uint32_t a, uint32_t b) {
  uint32_t root = kNone;
  uint32_t* place = &root;
  while (a != kNone && b != kNone) {
    if (sooner(b, a)) std::swap(a, b);
    *place = a;
    QpState& top = qps_[a];
    const uint32_t rest = top.right;
    top.right = top.left;
    place = &top.left;
    a = rest;
  }
  *place = a == kNone ? b : a;
  return root;
}

// Rates.

void FluidRun::touch(uint32_t group) {
  if (groups_[group].touched) return;
  groups_[group].touched = true;
  touched_.push_back(group);
}

void FluidRun::advance(uint32_t id) {
  GroupState& group = groups_[id];
  if (group.since == now_) return;
  if (group.flows != 0 && group.rate > 0) {
    const double bits = group.rate * static_cast<double>(now_ - group.since) / kPsPerSecond;
    group.sent_bits += bits;
    group.carried += bits * group.flows;
    if (!waves_.empty()) record(id, group.since, now_, group.rate * group.flows);
  }
  group.since = now_;
}

void FluidRun::record(uint32_t id, Time from, Time to, double rate) {
  while ((to - 1) / slice_ >= config_.recording.most_slices) halve_waves();
  const auto links = rates_.links(id);
  for (size_t use = 0; use < links.size(); ++use) {
    const double share = rates_.share(id, use);
    if (share == 0) continue;
    std::vector<double>& wave = waves_[links[use]];
    const size_t last = (to - 1) / slice_;
    if (wave.size() <= last) wave.resize(last + 1);
    for (size_t i = from / slice_; i <= last; ++i) {
      const Time begin = std::max(from, i * slice_), end = std::min(to, (i + 1) * slice_);
      wave[i] += share * rate * static_cast<double>(end - begin) / kPsPerSecond;
    }
  }
}

void FluidRun::halve_waves() {
  for (std::vector<double>& wave : waves_) {
    for (size_t i = 0; i < wave.size(); i += 2) wave[i / 2] = wave[i] + (i + 1 < wave.size() ? wave[i + 1] : 0);
    wave.resize((wave.size() + 1) / 2);
  }
  slice_ *= 2;
}

// What has been carried, to the links that carried it.
void FluidRun::settle(uint32_t id) {
  GroupState& group = groups_[id];
  const auto links = rates_.links(id);
  for (size_t use = 0; use < links.size(); ++use) link_bits_[links[use]] += group.carried * rates_.share(id, use);
  group.carried = 0;
}

void FluidRun::update_rates() {
  if (touched_.empty() && !capacity_changed_) return;
  capacity_changed_ = false;
  for (const uint32_t id : touched_) rates_.set_flows(id, groups_[id].flows);
  for (const uint32_t id : rates_.update()) {
    advance(id);
    groups_[id].rate = rates_.rate_bps(id);
    touch(id);
  }
  for (const uint32_t id : touched_) {
    groups_[id].touched = false;
    schedule(id);
  }
  touched_.clear();
}

void FluidRun::schedule(uint32_t id) {
  GroupState& group = groups_[id];
  endings_.remove(id);
  if (group.flows == 0 || group.rate <= 0) return;
  const double wait = (qps_[group.first].target - group.sent_bits) * kPsPerSecond / group.rate;
  endings_.push(now_ + static_cast<Time>(std::llround(std::clamp(wait, 0.0, kLongest))), id);
}

void FluidRun::fault(uint32_t number, bool known) {
  const Fault& change = config_.faults[number];
  moved_.clear();
  paths_.set_dead(change.link, !change.up, !known, moved_);
  for (const uint32_t id : moved_) {
    advance(id);
    settle(id);
    paths_.give_parts(id);
    touch(id);
    result_.totals.path_changes += groups_[id].flows;
  }
  if (known) return;
  rates_.set_capacity(change.link, change.up ? capacity_[change.link] : 0);
  capacity_changed_ = true;
}

RunResult FluidRun::collect() {
  for (uint32_t id = 0; id < groups_.size(); ++id) settle(id);
  result_.links.resize(link_bits_.size());
  for (size_t link = 0; link < link_bits_.size(); ++link)
    result_.links[link].sent_bytes = static_cast<uint64_t>(std::llround(link_bits_[link] / 8));
  result_.waveforms.resize(waves_.size());
  for (size_t link = 0; link < waves_.size(); ++link) {
    result_.waveforms[link].slice = slice_;
    for (const double bits : waves_[link])
      result_.waveforms[link].bytes.push_back(static_cast<uint64_t>(std::llround(bits / 8)));
  }
  result_.state_bytes = rates_.bytes() + paths_.bytes() + events_.bytes() + endings_.bytes() +
                        groups_.capacity() * sizeof(GroupState) + qps_.capacity() * sizeof(QpState) +
                        pending_.capacity() * sizeof(uint32_t);
  return std::move(result_);
}

}  // namespace orrery::sim
