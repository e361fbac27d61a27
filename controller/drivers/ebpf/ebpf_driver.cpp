#include "controller/drivers/ebpf/ebpf_driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace orrery::drivers::ebpf {
namespace {

constexpr uint32_t kDefaultTableSize = 16384;  // of switches that are not connected yet
constexpr uint32_t kDefaultMasks = 8;

Error refused(std::string what) {
  return {ErrorCode::kRefused, std::move(what)};
}

Status check_path(const fabric::Graph& fabric, const Flow& flow) {
  const auto *src = fabric.find_nic(flow.src), *dst = fabric.find_nic(flow.dst);
  if (!src || !dst)
    return refused(fmt::format("flow {}: {} is no host's address in the topology", flow.flow_id,
                               (src ? flow.dst : flow.src).to_string()));
  bool joined = !flow.path.empty() && flow.path.front() == src->uplink && fabric.link(flow.path.back()).to == dst->host;
  for (size_t i = 1; joined && i < flow.path.size(); ++i)
    joined = fabric.link(flow.path[i - 1]).to == fabric.link(flow.path[i]).from;
  if (!joined)
    return refused(fmt::format("flow {}: {} is not a path from {} to {}", flow.flow_id,
                               fmt::join(fabric.path_names(flow.path), " "), flow.src.to_string(),
                               flow.dst.to_string()));
  return {};
}

}  // namespace

Capabilities EbpfDriver::capabilities() const {
  uint32_t table_size = kDefaultTableSize;
  for (const auto& info : link_.connected()) table_size = std::min(table_size, info.table_size);
  return {
      .exact_path = true, .moves_live_flows = true, .telemetry = true, .local_reroute = true, .table_size = table_size};
}

Result<HostDirective> EbpfDriver::direct(const Flow& flow) {
  ORRERY_TRY(check_path(fabric_, flow));
  const auto connected = link_.connected();
  for (const auto link : flow.path) {
    const auto& node = fabric_.node(fabric_.link(link).from);
    const auto* dst = fabric_.find_nic(flow.dst);
    if (node.kind != fabric::NodeKind::kSwitch || fabric_.next_hops(fabric_.link(link).from, *dst).size() < 2) continue;
    if (std::none_of(connected.begin(), connected.end(), [&](const auto& info) { return info.name == node.name; }))
      return refused(
          fmt::format("flow {}: switch {} must decide its path and is not connected; start orrery-switch there",
                      flow.flow_id, node.name));
  }
  return HostDirective{};
}

TableLimits EbpfDriver::limits_of(fabric::NodeId at) const {
  for (const auto& info : link_.connected())
    if (info.name == fabric_.node(at).name) return {info.table_size, info.mask_limit};
  return {kDefaultTableSize, kDefaultMasks};
}

std::vector<SwitchRule> EbpfDriver::make_rules(const std::vector<CompiledRule>& compiled) {
  std::vector<SwitchRule> rules;
  for (const auto& rule : compiled) {
    const auto [id, fresh] = rule_ids_.try_emplace({rule.match, rule.mask}, next_rule_id_);
    if (fresh) ++next_rule_id_;
    const auto port = [&](fabric::LinkId link) {
      return link == fabric::kNone ? std::string() : fabric_.link(link).port;
    };
    rules.push_back({id->second, rule.match, rule.mask, port(rule.egress), port(rule.backup)});
  }
  return rules;
}

Result<EbpfDriver::Plan> EbpfDriver::make_plan(Revision revision, const std::vector<Flow>& flows, uint64_t lease_ns) {
  Plan plan{.revision = revision, .lease_ns = lease_ns};
  ORRERY_ASSIGN(plan.compiled, compile_rules(fabric_, flows, [this](fabric::NodeId at) { return limits_of(at); }));
  for (const auto& [at, compiled] : plan.compiled) plan.rules[fabric_.node(at).name] = make_rules(compiled);
  return plan;
}

void EbpfDriver::apply(Revision revision, const std::vector<Flow>& flows, uint64_t lease_ns, Completion done) {
  std::vector<std::string> had_rules;
  if (committed_)
    for (const auto& [name, rules] : committed_->rules) had_rules.push_back(name);
  while (pending_) {  // its completion may apply another
    for (const auto& [name, rules] : pending_->plan.rules) had_rules.push_back(name);
    finish(Error{ErrorCode::kUnavailable, fmt::format("revision {} was overtaken by revision {}",
                                                      pending_->plan.revision.number, revision.number)});
  }
  auto plan = make_plan(revision, flows, lease_ns);
  if (!plan) return done(plan.error());
  for (auto& name : had_rules) plan->rules.try_emplace(std::move(name));  // empty unless the new plan has some
  pending_.emplace(Pending{.plan = *std::move(plan), .done = std::move(done)});
  if (const auto sent = send_pending(); !sent) return roll_back(sent.error());
  if (pending_->waiting.empty()) commit();
}

Status EbpfDriver::send_pending() {
  for (const auto& [name, rules] : pending_->plan.rules) {
    const auto sent = link_.send_rules(name, {pending_->plan.revision, pending_->plan.lease_ns, rules});
    if (sent) {
      pending_->waiting.insert(name);
    } else if (is_needed(pending_->plan, name)) {  // what a switch only loses ends with its lease
      return Error{sent.error().code,
                   fmt::format("switch {} cannot be given its rules: {}", name, sent.error().message)};
    }
  }
  return {};
}

bool EbpfDriver::is_needed(const Plan& plan, std::string_view name) const {
  const auto rules = plan.compiled.find(*fabric_.find_node(name));
  return rules != plan.compiled.end() &&
         std::any_of(rules->second.begin(), rules->second.end(), [](const auto& rule) { return !rule.answers; });
}

void EbpfDriver::finish(Status outcome) {
  auto done = std::move(pending_->done);
  pending_.reset();
  done(std::move(outcome));  // may call apply()
}

void EbpfDriver::commit() {
  std::erase_if(pending_->plan.rules, [](const auto& entry) { return entry.second.empty(); });
  committed_ = std::move(pending_->plan);
  look_who_is_there();
  to_refresh_.clear();
  std::set<RuleKey> used;
  for (const auto& [at, rules] : committed_->compiled)
    for (const auto& rule : rules) used.insert({rule.match, rule.mask});
  std::erase_if(rule_ids_, [&](const auto& entry) { return !used.contains(entry.first); });
  finish({});
}

void EbpfDriver::send(const std::string& name, const Plan& plan) {
  const auto rules = plan.rules.find(name);
  if (rules == plan.rules.end() || rules->second.empty()) return;
  // Not connected: it gets them when it is.
  static_cast<void>(link_.send_rules(name, {plan.revision, plan.lease_ns, rules->second}).has_value());
}

void EbpfDriver::roll_back(const Error& reason) {
  for (const auto& [name, rules] : pending_->plan.rules) {
    if (committed_ && committed_->rules.contains(name))
      send(name, *committed_);
    else
      static_cast<void>(link_.send_withdraw(name, pending_->plan.revision).has_value());  // else its lease ends it
  }
  finish(reason);
}

void EbpfDriver::renew(Revision revision, uint64_t lease_ns) {
  if (!committed_ || committed_->revision != revision) return;
  committed_->lease_ns = lease_ns;
  for (const auto& [name, rules] : committed_->rules)
    if (!link_.send_lease(name, revision, lease_ns)) to_refresh_.insert(name);
}

void EbpfDriver::withdraw() {
  std::set<std::string> names;
  Revision revision;
  if (committed_)
    for (const auto& [name, rules] : committed_->rules) names.insert(name), revision = committed_->revision;
  if (pending_)
    for (const auto& [name, rules] : pending_->plan.rules) names.insert(name), revision = pending_->plan.revision;
  for (const auto& name : names)
    static_cast<void>(link_.send_withdraw(name, revision).has_value());  // else its lease ends it
  committed_.reset();
  to_refresh_.clear();
  if (pending_) finish(refused("the plan was withdrawn"));
}

void EbpfDriver::poll(uint64_t now_ns) {
  for (const auto& name : std::exchange(to_refresh_, {}))
    if (committed_ && !pending_) send(name, *committed_);
  if (!pending_) return;
  if (pending_->deadline_ns == 0) pending_->deadline_ns = now_ns + kAnswerTimeoutNs;
  if (now_ns >= pending_->deadline_ns)
    roll_back(
        {ErrorCode::kUnavailable, fmt::format("no answer from switch{} {} within {} ms; the previous rules are back",
                                              pending_->waiting.size() > 1 ? "es" : "",
                                              fmt::join(pending_->waiting, ", "), kAnswerTimeoutNs / 1'000'000)});
}

void EbpfDriver::on_switch_connected(const SwitchInfo& info) {
  look_who_is_there();
  if (pending_ && pending_->plan.rules.contains(info.name)) {
    const auto& plan = pending_->plan;
    if (link_.send_rules(info.name, {plan.revision, plan.lease_ns, plan.rules.find(info.name)->second}))
      pending_->waiting.insert(info.name);
  } else if (committed_) {
    send(info.name, *committed_);
  }
}

void EbpfDriver::on_switch_gone(std::string_view name) {
  look_who_is_there();
  if (!pending_ || !pending_->waiting.contains(name)) return;
  roll_back({ErrorCode::kUnavailable,
             fmt::format("switch {} went away before it took its rules; the previous rules are back", name)});
}

void EbpfDriver::on_switch_ack(const SwitchAck& ack) {
  if (pending_ && pending_->waiting.contains(ack.name) && ack.revision == pending_->plan.revision) {
    if (!ack.accepted) return roll_back(refused(fmt::format("switch {}: {}", ack.name, ack.reason)));
    pending_->waiting.erase(ack.name);
    if (pending_->waiting.empty()) commit();
  } else if (!ack.accepted && !pending_ && committed_ && ack.revision == committed_->revision &&
             committed_->rules.contains(ack.name)) {
    to_refresh_.insert(ack.name);  // it does not know the plan whose lease was renewed
  }
}

const CompiledPlan& EbpfDriver::rules_at(fabric::NodeId at) const {
  static const CompiledPlan kNoRules;
  return has_agent_.contains(at) ? committed_->compiled : kNoRules;
}

void EbpfDriver::look_who_is_there() {
  has_agent_.clear();
  for (const auto& info : link_.connected())
    if (const auto node = fabric_.find_node(info.name)) has_agent_.insert(*node);
}

std::optional<fabric::Path> EbpfDriver::path_of(const FiveTuple& tuple) const {
  const auto *src = fabric_.find_nic(tuple.src), *dst = fabric_.find_nic(tuple.dst);
  if (!committed_ || !src || !dst || src == dst) return std::nullopt;
  fabric::Path path{src->uplink};
  bool ruled = false;
  while (fabric_.link(path.back()).to != dst->host) {
    const fabric::NodeId at = fabric_.link(path.back()).to;
    const auto hop = next_hop(fabric_, rules_at(at), at, tuple, *dst);
    ruled |= hop.rule != nullptr;
    if (!hop.egress || path.size() > fabric_.nodes().size()) return std::nullopt;
    path.push_back(*hop.egress);
  }
  return ruled ? std::optional(path) : std::nullopt;
}

std::optional<std::string> EbpfDriver::decided_by(fabric::NodeId at, const FiveTuple& tuple) const {
  const auto* dst = fabric_.find_nic(tuple.dst);
  if (!committed_ || !dst) return std::nullopt;
  const auto hop = next_hop(fabric_, rules_at(at), at, tuple, *dst);
  if (!hop.rule || !hop.egress) return std::nullopt;
  const auto id = rule_ids_.at({hop.rule->match, hop.rule->mask});
  if (*hop.egress == hop.rule->egress) return fmt::format("rule {}", id);
  if (*hop.egress == hop.rule->backup) return fmt::format("rule {}, backup port", id);
  return std::nullopt;  // neither port of the rule is up
}

}  // namespace orrery::drivers::ebpf
