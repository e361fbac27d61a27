#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "controller/planner/planner.h"
#include "controller/planner/problem.h"

namespace orrery::planner {
namespace {

using fabric::Graph;
using fabric::LinkId;

constexpr size_t kMaxAlternatives = 8;

std::string time_text(uint64_t ns) {
  if (ns < 10'000) return fmt::format("{} ns", ns);
  if (ns < 10'000'000) return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

std::string rate_text(uint64_t bps) {
  if (bps < 10'000'000) return fmt::format("{} kbit/s", bps / 1000);
  if (bps < 10'000'000'000) return fmt::format("{:.1f} Mbit/s", static_cast<double>(bps) / 1e6);
  return fmt::format("{:.1f} Gbit/s", static_cast<double>(bps) / 1e9);
}

class Explainer {
 public:
  Explainer(const Snapshot& snapshot, const Plan& plan, const ResolvedFlow& flow, const FlowAssignment& assignment)
      : fabric_(*snapshot.fabric), snapshot_(snapshot), plan_(plan), flow_(flow), assignment_(assignment) {
    bytes_.resize(fabric_.links().size());
    flows_.resize(bytes_.size());
    for (size_t index = 0; index < plan.flows.size(); ++index) {
      const FlowDemand& demand = snapshot.flows[index];
      if (demand.phase != flow.demand->phase || demand.bytes == 0 || plan.flows[index].round != assignment.round)
        continue;
      plan.flows[index].each_path([&](const fabric::Path& path) {
        for (LinkId link : path) {
          bytes_[link] += subflow_bytes(demand);
          ++flows_[link];
        }
      });
    }
  }

  std::vector<std::string> run() {
    say_demand();
    if (assignment_.path.empty()) {
      say_why_no_path();
      return std::move(sentences_);
    }
    say_path();
    if (flow_.movable()) say_alternatives();
    say_sharing();
    say_backups();
    say_bound();
    return std::move(sentences_);
  }

 private:
  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    sentences_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  std::string nic_text(const fabric::Nic& nic) const {
    return fmt::format("{} ({})", fabric_.node(nic.host).name, nic.address.to_string());
  }
  std::string path_text(const fabric::Path& path) const {
    return fmt::format("{}", fmt::join(fabric_.path_names(path), " > "));
  }
  uint64_t drain(LinkId link) const { return drain_ns(bytes_[link], fabric_.link(link).rate_bps); }

  void say_demand() {
    const FlowDemand& demand = *flow_.demand;
    if (demand.bytes > 0) {
      say("{} sends {} bytes per round to {}{}.", nic_text(*flow_.src), demand.bytes, nic_text(*flow_.dst),
          demand.phase == 0 ? "" : fmt::format(", in phase {}", demand.phase));
    } else {
      say("{} sends to {}; how much is not known yet, so it was planned after all other flows and counts as no load.",
          nic_text(*flow_.src), nic_text(*flow_.dst));
    }
  }

  void say_why_no_path() {
    if (flow_.src == flow_.dst) return say("Both ends are one NIC: it uses no link and needs no plan.");
    for (LinkId link : {flow_.src->uplink, flow_.down})
      if (!fabric_.link(link).usable())
        return say("It has no path: {} is down or drained, so the flow stays unmanaged.", fabric_.link_name(link));
    say("It has no path: no way from {} to {} has all its links up and not drained, so the flow stays unmanaged.",
        fabric_.node(fabric_.link(flow_.src->uplink).to).name, fabric_.node(fabric_.link(flow_.dst->uplink).to).name);
  }

  void say_path() {
    say("Its path is {}.", path_text(assignment_.path));
    if (!assignment_.others.empty())
      say("That is its first subflow's; {} others carry as many bytes each over paths of their own.",
          assignment_.others.size());
    const FlowDemand& demand = *flow_.demand;
    if (!demand.fixed.empty())
      return say("That path is fixed: the flow cannot be moved, so the others are planned around it.");
    if (demand.current.empty()) return;
    if (demand.current == assignment_.path) return say("It keeps the path it had.");
    if (flow_.current == kNoChoice)
      return say("It had to leave {}, of which a link is down or drained.", path_text(demand.current));
    say("It was moved from {}, because the busiest link drains sooner that way.", path_text(demand.current));
  }

  void say_alternatives() {
    const std::vector<Core>& cores = *flow_.cores;
    if (cores.size() == 1 && cores.front().empty())
      return say("Both hosts are on one switch, so there is no other path.");
    if (cores.size() == 1) return say("No other path is usable.");
    std::vector<std::string> texts;
    for (size_t index = 0; index < cores.size() && texts.size() < kMaxAlternatives; ++index) {
      const bool taken = std::equal(cores[index].begin(), cores[index].end(), assignment_.path.begin() + 1,
                                    assignment_.path.end() - 1);
      uint64_t worst = 0;
      for (LinkId link : cores[index])
        worst = std::max(
            worst, drain_ns(bytes_[link] + (taken ? 0 : subflow_bytes(*flow_.demand)), fabric_.link(link).rate_bps));
      texts.push_back(fmt::format("{} {}{}", path_text(cores[index]), time_text(worst), taken ? " (taken)" : ""));
    }
    say("{} paths are usable; with this flow on it, the busiest link between switches would need per round: {}{}.",
        cores.size(), fmt::join(texts, "; "),
        texts.size() < cores.size() ? fmt::format("; and {} more", cores.size() - texts.size()) : "");
  }

  void say_sharing() {
    if (plan_.rounds > 0 && flow_.demand->exchange)
      say("It is part of an all-to-all that goes in rounds, in each of which no NIC receives from two: it goes in "
          "round {}, which begins {} after the collective.",
          assignment_.round + 1, time_text(assignment_.release_offset_ns));
    LinkId tightest = fabric::kNone;
    for (LinkId link : assignment_.path)
      if (flows_[link] > 1 && (tightest == fabric::kNone || drain(link) > drain(tightest))) tightest = link;
    if (tightest == fabric::kNone || flow_.demand->bytes == 0)
      return say(
          "No other flow of its phase{} with known bytes uses any of its links, so it may start at once and unpaced.",
          plan_.rounds > 0 ? " and round" : "");
    const uint32_t others = flows_[tightest] - 1;
    const std::string start = assignment_.release_offset_ns == 0
                                  ? "with its collective"
                                  : time_text(assignment_.release_offset_ns) + " after its collective";
    const std::string pace = assignment_.pace_bps != 0 ? "is paced to " + rate_text(assignment_.pace_bps)
                             : flow_.demand->in_step
                                 ? "is not paced"
                                 : "is not paced, because its program sends to several at times of its own";
    say("It shares {} with {} other flow{} of its phase: it starts {} and {}.", fabric_.link_name(tightest), others,
        others == 1 ? "" : "s", start, pace);
  }

  void say_backups() {
    for (const fabric::Path& backup : assignment_.backups)
      say("If a link of its path fails, it goes by {}.", path_text(backup));
    if (assignment_.backups.empty() && snapshot_.options.backups > 0) say("It has no backup path.");
  }

  void say_bound() {
    if (plan_.optimal()) {
      say("{}The plan's busiest link drains in {} per round, and no assignment can do better.",
          plan_.method == Method::kEdgeColouring
              ? "The flows are equal in size, so paths were assigned by edge colouring. "
              : "",
          time_text(plan_.max_drain_ns));
    } else {
      say("The plan's busiest link drains in {} per round; no assignment can go below {}: a gap of {:.1f} %.",
          time_text(plan_.max_drain_ns), time_text(plan_.lower_bound_ns),
          100 * (static_cast<double>(plan_.max_drain_ns) / static_cast<double>(plan_.lower_bound_ns) - 1));
    }
    if (plan_.fluid_bound_ns < plan_.lower_bound_ns)
      say("If its bytes could be split at will, {} would do: more subflows per flow come nearer to that.",
          time_text(plan_.fluid_bound_ns));
  }

  const Graph& fabric_;
  const Snapshot& snapshot_;
  const Plan& plan_;
  const ResolvedFlow& flow_;
  const FlowAssignment& assignment_;
  std::vector<uint64_t> bytes_;  // of the flow's phase, by LinkId
  std::vector<uint32_t> flows_;
  std::vector<std::string> sentences_;
};

bool belongs(const Snapshot& snapshot, const Plan& plan) {
  return std::equal(
      snapshot.flows.begin(), snapshot.flows.end(), plan.flows.begin(), plan.flows.end(),
      [](const FlowDemand& demand, const FlowAssignment& flow) { return demand.flow_id == flow.flow_id; });
}

}  // namespace

Result<std::vector<std::string>> explain(const Snapshot& snapshot, const Plan& plan, uint64_t flow_id) {
  if (snapshot.fabric == nullptr || !belongs(snapshot, plan))
    return Error{ErrorCode::kInvalidArgument, "the plan was not made from this snapshot; plan it again first"};
  const auto found = std::find_if(snapshot.flows.begin(), snapshot.flows.end(),
                                  [&](const FlowDemand& flow) { return flow.flow_id == flow_id; });
  if (found == snapshot.flows.end())
    return Error{ErrorCode::kNotFound,
                 fmt::format("flow {} is not in the plan; `orreryctl plan list` shows those that are", flow_id)};
  CoreTable table(*snapshot.fabric);
  Snapshot only{.fabric = snapshot.fabric, .flows = {*found}, .options = snapshot.options};
  ORRERY_ASSIGN(const std::vector<ResolvedFlow> flows, resolve(only, table));
  return Explainer(snapshot, plan, flows.front(), plan.flows[found - snapshot.flows.begin()]).run();
}

}  // namespace orrery::planner
