#include "agent/enforce/enforcer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace orrery::enforce {

Enforcer::Enforcer(std::string host, const Limits& limits, std::function<bool(const IpAddress&)> is_local,
                   telemetry::Metrics& metrics)
    : host_(std::move(host)),
      limits_(limits),
      is_local_(std::move(is_local)),
      series_{
          metrics.counter("orrery_enforce_accepted_plans_total", "Plans taken from the controller."),
          metrics.counter("orrery_enforce_refused_plans_total", "Plans refused; the reason is in the log."),
          metrics.counter("orrery_enforce_expired_plans_total", "Plans withdrawn because their lease ran out."),
          metrics.counter("orrery_enforce_renewed_leases_total", "Renewals of the lease of the plan in force."),
          metrics.counter("orrery_enforce_over_limit_entries_total",
                          "Entries left out of a process's table because it is full."),
          metrics.gauge("orrery_enforce_plan_entries", "Flows of the plan in force, 0 in unmanaged mode."),
          metrics.gauge("orrery_enforce_plan_revision_number", "Revision of the plan in force, 0 in unmanaged mode.")} {
}

Status Enforcer::check_order(const msg::HostPlan& plan) const {
  if (plan.host != host_)
    return Error{ErrorCode::kRefused, fmt::format("the plan is for host '{}', this is '{}'", plan.host, host_)};
  if (plan.term < highest_term_)
    return Error{ErrorCode::kRefused,
                 fmt::format("term {} is over, this agent has followed term {}; a newer controller leads", plan.term,
                             highest_term_)};
  if (plan.term == term_ && plan.revision < revision_)
    return Error{ErrorCode::kRefused,
                 fmt::format("revision {} is older than {}, which this agent has followed", plan.revision, revision_)};
  if (plan.flows.size() > limits_.flows_per_host)
    return Error{ErrorCode::kRefused, fmt::format("{} flows, this agent takes {} (limits.plan_flows_count)",
                                                  plan.flows.size(), limits_.flows_per_host)};
  return {};
}

msg::Ack Enforcer::answer(const msg::HostPlan& plan, std::string refusal) {
  const bool accepted = refusal.empty();
  (accepted ? series_.accepted : series_.refused).Increment();
  return {.name = host_,
          .term = plan.term,
          .revision = plan.revision,
          .accepted = accepted,
          .reason = std::move(refusal),
          .entries = static_cast<uint32_t>(entries_.size())};
}

msg::Ack Enforcer::accept(const msg::HostPlan& plan, uint64_t now_ns) {
  if (const Status order = check_order(plan); !order) return answer(plan, order.error().message);
  std::vector<orrery_plan_entry> entries;
  entries.reserve(plan.flows.size());
  for (const msg::FlowPlan& flow : plan.flows) {
    auto entry = make_entry(flow, is_local_);
    if (!entry) return answer(plan, entry.error().message);
    entries.push_back(*entry);
  }
  entries_ = std::move(entries);
  highest_term_ = term_ = plan.term;
  revision_ = plan.revision;
  valid_until_ns_ = now_ns + plan.lease_ns;
  publish_all();
  return answer(plan, "");
}

bool Enforcer::renew(const msg::Lease& lease, uint64_t now_ns) {
  if (!in_force() || lease.term != term_ || lease.revision != revision_) return false;
  valid_until_ns_ = now_ns + lease.lease_ns;
  for (auto& [number, process] : processes_) process.table.renew(valid_until_ns_, release_suspended_);
  series_.renewed.Increment();
  return true;
}

bool Enforcer::withdraw(const msg::Lease& lease) {
  if (lease.term < highest_term_ || (lease.term == term_ && lease.revision < revision_)) return false;
  highest_term_ = term_ = lease.term;
  revision_ = lease.revision;
  revoke_all();
  return true;
}

bool Enforcer::expire(uint64_t now_ns) {
  if (!in_force() || now_ns < valid_until_ns_) return false;
  revoke_all();
  series_.expired.Increment();
  return true;
}

void Enforcer::suspend_release(bool suspended, uint64_t now_ns) {
  if (suspended == release_suspended_) return;
  release_suspended_ = suspended;
  if (!in_force() || now_ns >= valid_until_ns_) return;
  for (auto& [number, process] : processes_) process.table.renew(valid_until_ns_, release_suspended_);
}

void Enforcer::attach(uint64_t process, shm::PlanTable table) {
  Process& added = processes_.insert_or_assign(process, Process{std::move(table), {}, {}, {}}).first->second;
  if (in_force()) publish(added);
}

void Enforcer::detach(uint64_t process) {
  processes_.erase(process);
}

void Enforcer::set_communicators(uint64_t process, std::vector<uint64_t> comm_ids) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  std::sort(comm_ids.begin(), comm_ids.end());
  if (comm_ids == found->second.comm_ids) return;
  found->second.comm_ids = std::move(comm_ids);
  if (in_force()) publish(found->second);
}

void Enforcer::publish(Process& process) {
  std::vector<orrery_plan_entry> own;
  for (const orrery_plan_entry& entry : entries_) {
    const bool announced =
        entry.comm_id == 0 || std::binary_search(process.comm_ids.begin(), process.comm_ids.end(), entry.comm_id);
    if (!announced) continue;
    if (own.size() == process.table.capacity())
      series_.over_limit.Increment();
    else
      own.push_back(entry);
  }
  process.entries = std::move(own);
  process.by_flow_id.resize(process.entries.size());
  std::iota(process.by_flow_id.begin(), process.by_flow_id.end(), 0u);
  std::ranges::sort(process.by_flow_id, {}, [&](uint32_t index) { return process.entries[index].flow_id; });
  // Cannot fail: what does not fit was left out above.
  (void)process.table.publish(process.entries, {term_, revision_, valid_until_ns_, release_suspended_});
}

void Enforcer::publish_all() {
  for (auto& [number, process] : processes_) publish(process);
  series_.entries.Set(static_cast<double>(entries_.size()));
  series_.revision.Set(static_cast<double>(revision_));
}

void Enforcer::revoke_all() {
  entries_.clear();
  valid_until_ns_ = 0;
  for (auto& [number, process] : processes_) {
    process.table.revoke();
    process.entries.clear();
    process.by_flow_id.clear();
  }
  series_.entries.Set(0);
  series_.revision.Set(0);
}

bool Enforcer::is_planned(uint64_t process, uint64_t flow_id, const FiveTuple& tuple) const {
  const auto found = processes_.find(process);
  if (found == processes_.end() || flow_id == 0) return false;
  // A process may make another claim for each of its flows at any time, so a claim must cost little.
  const Process& holder = found->second;
  const auto id_of = [&](uint32_t index) { return holder.entries[index].flow_id; };
  const auto first = std::ranges::lower_bound(holder.by_flow_id, flow_id, {}, id_of);
  return std::any_of(first, std::ranges::upper_bound(holder.by_flow_id, flow_id, {}, id_of), [&](uint32_t index) {
    const orrery_plan_entry& entry = holder.entries[index];
    return entry.protocol == tuple.protocol && IpAddress::from_bytes(entry.remote_address) == tuple.dst;
  });
}

}  // namespace orrery::enforce
