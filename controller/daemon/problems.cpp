// The part of Answers that says what is wrong and what to do about it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "controller/daemon/answers.h"

namespace orrery::daemon {
namespace {

constexpr size_t kNamesShown = 5;

// "h1, h2, h3 and 7 more"
std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesShown)));
  const std::string more = names.size() > kNamesShown ? fmt::format(" and {} more", names.size() - kNamesShown) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), more);
}

}  // namespace

void Answers::add_plan_problems(std::vector<std::string>& problems) const {
  if (!core_.planning_problem_.empty())
    problems.push_back(
        fmt::format("the last planning failed, the plan before stays in force: {}", core_.planning_problem_));
  if (!core_.rollout_problem_.empty())
    problems.push_back(core_.rollout_problem_ + "; it is tried again every few seconds");
  if (std::string turns = core_.turns_.problem(now_ns_); !turns.empty()) problems.push_back(std::move(turns));
  size_t unmanaged = 0;
  std::string reason;
  for (const planner::FlowAssignment& flow : core_.in_force_.plan->flows) {
    const std::string* refusal = core_.rollout_.refusal(flow.flow_id);
    if (refusal == nullptr) continue;
    if (unmanaged++ == 0) reason = fmt::format("flow {}: {}", flow.flow_id, *refusal);
  }
  if (unmanaged != 0)
    problems.push_back(fmt::format("{} of {} flows are unmanaged, the first is {}; see 'orreryctl flow explain'",
                                   unmanaged, core_.in_force_.plan->flows.size(), reason));
}

void Answers::add_peer_problems(std::vector<std::string>& problems) const {
  std::vector<std::string> away, silent;
  for (const auto& [name, host] : core_.hosts_.all())
    if (!host.connected) away.push_back(name);
  if (!away.empty())
    problems.push_back(
        fmt::format("no agent on {} of {} hosts ({}): their traffic is unmanaged; start orrery-agent there or check "
                    "that it reaches this controller",
                    away.size(), core_.hosts_.all().size(), listed(away)));
  for (const auto& [host, status] : core_.rollout_.hosts()) {
    if (!status.refusal.empty())
      problems.push_back(
          fmt::format("host {} refuses its plan: {}; see the log of orrery-agent there", host, status.refusal));
    if (status.silent) silent.push_back(host);
  }
  if (!silent.empty())
    problems.push_back(fmt::format("the agents of {} do not acknowledge plans: look at, or restart, orrery-agent there",
                                   listed(silent)));
  if (core_.driver_.switch_events() == nullptr) return;
  away.clear();
  for (const auto& [name, record] : core_.switches_) {
    if (!record.connected) away.push_back(name);
    if (!record.refusal.empty())
      problems.push_back(
          fmt::format("switch {} refuses its rules: {}; see the log of orrery-switch there", name, record.refusal));
  }
  if (!away.empty())
    problems.push_back(
        fmt::format("no agent on {} of {} switches ({}): paths through them cannot be set; start orrery-switch there "
                    "or use driver entropy",
                    away.size(), core_.switches_.size(), listed(away)));
}

void Answers::add_fabric_problems(std::vector<std::string>& problems) const {
  std::vector<std::string> down;
  for (fabric::LinkId id = 0; id < core_.fabric_.links().size(); ++id)
    if (!core_.fabric_.link(id).up && id < core_.fabric_.link(id).reverse) down.push_back(core_.fabric_.link_name(id));
  if (!down.empty())
    problems.push_back(
        fmt::format("{} links are down ({}): plans go around them; check cables and ports", down.size(), listed(down)));
}

void Answers::add_job_problems(std::vector<std::string>& problems) const {
  std::vector<std::string> ids;
  for (const auto& [id, communicator] : core_.communicators_.all())
    if (communicator.device_traffic) ids.push_back(fmt::format("{:#x}", id));
  if (!ids.empty())
    problems.push_back(
        fmt::format("{} jobs may send from the GPU without the CPU ({}): that traffic is not planned, the rest is; "
                    "NCCL_GIN_ENABLE=0 in the job keeps all of it with the CPU",
                    ids.size(), listed(ids)));
}

void Answers::add_host_problems(std::vector<std::string>& problems) const {
  std::vector<std::string> dropping, suspended;
  for (const auto& [name, host] : core_.hosts_.all()) {
    if (host.losses.ring_dropped + host.losses.no_ring + host.losses.no_slot != 0) dropping.push_back(name);
    if (host.connected && host.clock.release_suspended) suspended.push_back(name);
  }
  if (!dropping.empty())
    problems.push_back(
        fmt::format("events of processes were lost on {}: raise limits.ring_events_count, limits.rings_count or "
                    "limits.flows_count in the agent's configuration",
                    listed(dropping)));
  if (!suspended.empty())
    problems.push_back(fmt::format(
        "release offsets are suspended on {} because the clock is out of bounds: check ptp4l and phc2sys there",
        listed(suspended)));
}

}  // namespace orrery::daemon
