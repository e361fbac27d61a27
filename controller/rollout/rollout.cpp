#include "controller/rollout/rollout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace orrery::rollout {

Rollout::Rollout(const fabric::Graph& fabric, drivers::Driver& driver, AgentLink& agents, telemetry::Metrics& metrics,
                 Options options, uint64_t term)
    : fabric_(fabric),
      driver_(driver),
      agents_(agents),
      options_(options),
      term_(term),
      acks_(metrics.counter("orrery_rollout_plans_acknowledged_total", "Plans that agents acknowledged")),
      refusals_(metrics.counter("orrery_rollout_plans_refused_total", "Plans that agents refused or left unanswered")),
      rollbacks_(metrics.counter("orrery_rollout_plans_reverted_total", "Plans taken back as a whole")),
      committed_plans_(
          metrics.counter("orrery_rollout_plans_committed_total", "Plans in force everywhere they concern")) {}

drivers::Revision Rollout::start(const std::vector<drivers::Flow>& flows, uint64_t now_ns) {
  now_ns_ = now_ns;
  auto candidate = std::make_shared<Candidate>();
  candidate->revision = next_revision();
  candidate->plans = make_host_plans(fabric_, driver_, flows);
  for (const drivers::Flow& flow : candidate->plans.accepted) candidate->accepted_ids.insert(flow.flow_id);
  const drivers::Revision revision = candidate->revision;
  if (phase_ == Phase::kNetwork)
    waiting_ = std::move(candidate);
  else
    begin(std::move(candidate), now_ns);
  return revision;
}

void Rollout::begin(std::shared_ptr<const Candidate> candidate, uint64_t now_ns) {
  in_flight_ = std::move(candidate);
  phase_ = Phase::kNetwork;
  deadline_ns_ = now_ns + options_.network_timeout_ns;
  const uint64_t generation = ++generation_;
  // Kept alive by the local: the completion may begin another candidate before apply() returns.
  const std::shared_ptr<const Candidate> applied = in_flight_;
  driver_.apply(applied->revision, applied->plans.accepted, options_.lease_ns,
                [this, generation](Status status) { on_network(generation, status); });
}

void Rollout::on_network(uint64_t generation, const Status& status) {
  if (generation != generation_ || phase_ != Phase::kNetwork) return;
  if (!status) return fail(fmt::format("the {} driver: {}", driver_.name(), status.error().message), now_ns_);
  network_ = in_flight_->revision;
  if (waiting_) return begin(std::exchange(waiting_, nullptr), now_ns_);
  tell_hosts(now_ns_);
}

void Rollout::tell_hosts(uint64_t now_ns) {
  phase_ = Phase::kHosts;
  deadline_ns_ = now_ns + options_.host_timeout_ns;
  unanswered_.clear();
  if (!driver_.capabilities().applies) return commit();
  for (const std::string& host : agents_.connected_agents()) {
    const bool concerned = in_flight_->plans.by_host.contains(host) || hosts_[host].has_flows;
    if (concerned && send_plan(host, *in_flight_) && !hosts_[host].silent) unanswered_.insert(host);
  }
  if (unanswered_.empty()) commit();
}

bool Rollout::send_plan(const std::string& host, const Candidate& candidate) {
  msg::HostPlan plan{.host = host,
                     .term = candidate.revision.term,
                     .revision = candidate.revision.number,
                     .lease_ns = options_.lease_ns};
  const auto flows = candidate.plans.by_host.find(host);
  if (flows != candidate.plans.by_host.end()) plan.flows = flows->second;
  if (Status sent = agents_.send_plan(host, plan); !sent) {
    spdlog::warn("cannot send plan {} to host {}: {}; it stays unmanaged until its agent returns",
                 candidate.revision.number, host, sent.error().message);
    return false;
  }
  hosts_[host].sent = candidate.revision;
  hosts_[host].has_flows = !plan.flows.empty();
  return true;
}

void Rollout::commit() {
  committed_ = in_flight_;
  phase_ = Phase::kIdle;
  committed_plans_.Increment();
  outcomes_.push_back({committed_->revision, true, committed_->rollback, ""});
}

void Rollout::fail(const std::string& reason, uint64_t now_ns) {
  const std::shared_ptr<const Candidate> failed = in_flight_;
  spdlog::error("plan {} is taken back: {}", failed->revision.number, reason);
  rollbacks_.Increment();
  outcomes_.push_back({failed->revision, false, failed->rollback, reason});
  unanswered_.clear();
  if (waiting_) return begin(std::exchange(waiting_, nullptr), now_ns);
  if (!committed_ || failed->rollback) return withdraw();
  auto previous = std::make_shared<Candidate>(*committed_);
  previous->revision = next_revision();
  previous->rollback = true;
  begin(std::move(previous), now_ns);
}

void Rollout::withdraw() {
  ++generation_;
  phase_ = Phase::kIdle;
  in_flight_ = waiting_ = committed_ = nullptr;
  unanswered_.clear();
  driver_.withdraw();
  network_ = {};
  for (auto& [host, status] : hosts_) {
    if (!status.has_flows) continue;
    static_cast<void>(agents_.send_withdraw(
        host, status.sent));  // an agent that cannot be reached undoes its plan when the lease ends
    status.has_flows = false;
  }
}

const Rollout::Candidate* Rollout::told() const {
  return phase_ == Phase::kHosts ? in_flight_.get() : committed_.get();
}

void Rollout::on_agent_connected(const std::string& host, uint64_t now_ns) {
  now_ns_ = now_ns;
  HostStatus& status = hosts_[host];
  status = {};
  const Candidate* plan = told();
  const bool concerned = plan != nullptr && driver_.capabilities().applies && plan->plans.by_host.contains(host);
  if (concerned && send_plan(host, *plan)) return;
  stop_waiting_for(host);  // it has nothing that it would have to acknowledge
}

void Rollout::stop_waiting_for(const std::string& host) {
  if (unanswered_.erase(host) != 0 && unanswered_.empty() && phase_ == Phase::kHosts) commit();
}

void Rollout::on_agent_gone(const std::string& host, uint64_t now_ns) {
  now_ns_ = now_ns;
  hosts_.erase(host);
  stop_waiting_for(host);
}

void Rollout::on_ack(const msg::Ack& ack, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto found = hosts_.find(ack.name);
  const drivers::Revision revision{ack.term, ack.revision};
  if (found == hosts_.end() || ack.term != term_ || revision > found->second.sent)
    return;  // of a plan it was never sent
  HostStatus& status = found->second;
  status.silent = false;
  if (revision >= status.acknowledged) {
    if (ack.accepted) status.acknowledged = revision;
    status.entries = ack.entries;
    status.refusal = ack.accepted ? "" : ack.reason.empty() ? "no reason given" : ack.reason;
  }
  (ack.accepted ? acks_ : refusals_).Increment();
  if (phase_ != Phase::kHosts || revision != in_flight_->revision || !unanswered_.contains(ack.name)) return;
  if (!ack.accepted)
    return fail(fmt::format("host {} refused it: {}; see the log of orrery-agent there", ack.name, status.refusal),
                now_ns);
  stop_waiting_for(ack.name);
}

void Rollout::poll(uint64_t now_ns) {
  now_ns_ = now_ns;
  driver_.poll(now_ns);
  if (phase_ == Phase::kNetwork && now_ns >= deadline_ns_)
    fail(fmt::format("the {} driver did not answer in time", driver_.name()), now_ns);
  if (phase_ == Phase::kHosts && now_ns >= deadline_ns_) {
    for (const std::string& host : unanswered_) hosts_[host].silent = true;
    refusals_.Increment(static_cast<double>(unanswered_.size()));
    fail(fmt::format("no acknowledgement from {} within {} ms; see the log of orrery-agent there",
                     fmt::join(unanswered_, ", "), options_.host_timeout_ns / 1'000'000),
         now_ns);
  }
  if (now_ns >= renewed_ns_ + options_.renew_ns) renew(now_ns);
}

void Rollout::renew(uint64_t now_ns) {
  const bool expired = renewed_ns_ != 0 && now_ns >= renewed_ns_ + options_.lease_ns;
  renewed_ns_ = now_ns;
  if (expired && committed_ &&
      phase_ == Phase::kIdle) {  // this process was stopped for so long that everybody has dropped the plan
    auto again = std::make_shared<Candidate>(*committed_);
    again->revision = next_revision();
    return begin(std::move(again), now_ns);
  }
  if (network_.number != 0) driver_.renew(network_, options_.lease_ns);
  for (const auto& [host, status] : hosts_)
    if (lacks_plan(host, status))
      send_plan(host, *committed_);
    else if (status.has_flows)
      static_cast<void>(
          agents_.send_lease(host, status.sent, options_.lease_ns));  // a lost renewal is what leases are for
}

bool Rollout::lacks_plan(const std::string& host, const HostStatus& status) const {
  return phase_ == Phase::kIdle && committed_ && driver_.capabilities().applies &&
         status.sent != committed_->revision && (status.has_flows || committed_->plans.by_host.contains(host));
}

const std::string* Rollout::refusal(uint64_t flow_id) const {
  const Candidate* plan = in_flight_ ? in_flight_.get() : committed_.get();
  if (plan == nullptr) return nullptr;
  const auto found = plan->plans.refused.find(flow_id);
  return found == plan->plans.refused.end() ? nullptr : &found->second;
}

bool Rollout::acknowledged(uint64_t flow_id) const {
  return committed_ && committed_->accepted_ids.contains(flow_id);
}

}  // namespace orrery::rollout
