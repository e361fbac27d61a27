#include "controller/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "controller/planner/backups.h"
#include "controller/planner/bounds.h"
#include "controller/planner/homes.h"
#include "controller/planner/problem.h"
#include "controller/planner/rounds.h"
#include "controller/planner/schedule.h"
#include "controller/planner/solve.h"
#include "controller/planner/teams.h"

namespace orrery::planner {
namespace {

// That planning small jobs as carefully as large ones may cost the busiest link.
constexpr uint32_t kFairCostPercent = 1;

using Indices = std::vector<uint32_t>;
using Loads = std::vector<uint64_t>;  // bytes by LinkId

// The flows of each phase, heaviest first, in an order that does not depend on the snapshot's.
std::map<uint32_t, Indices> phases_of(const std::vector<ResolvedFlow>& flows) {
  std::map<uint32_t, Indices> phases;
  for (uint32_t index = 0; index < flows.size(); ++index) phases[flows[index].demand->phase].push_back(index);
  const auto key = [&](uint32_t index) {
    const FlowDemand& demand = *flows[index].demand;
    return std::tuple(~subflow_bytes(demand), demand.src, demand.dst, demand.flow_id);
  };
  for (auto& [phase, indices] : phases)
    std::sort(indices.begin(), indices.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return phases;
}

// Of a flow's subflow.
Item item_of(const ResolvedFlow& flow, uint32_t subflow, uint64_t weight, const Homes& homes) {
  return {.weight = weight,
          .up = flow.src->uplink,
          .down = flow.down,
          .cores = flow.cores,
          .current = subflow == 0 ? flow.current : kNoChoice,
          .home = homes.of(flow, subflow)};
}

// The flows of one phase, in the order of phases_of(), by when they send.
struct Batches {
  Indices others;               // all the time
  std::vector<Indices> rounds;  // one after the other
};

Batches batches_of(const std::vector<ResolvedFlow>& flows, const Indices& indices) {
  Batches batches;
  Indices members;
  std::vector<ExchangeFlow> exchange;
  for (uint32_t index : indices) {
    const ResolvedFlow& flow = flows[index];
    const bool waits = flow.demand->exchange && flow.movable() && flow.demand->bytes > 0;
    (waits ? members : batches.others).push_back(index);
    if (waits) exchange.push_back({flow.src->uplink, flow.down, planned_bytes(*flow.demand)});
  }
  const std::vector<uint32_t> rounds = rounds_of(exchange);
  for (size_t at = 0; at < members.size(); ++at) {
    if (rounds[at] >= batches.rounds.size()) batches.rounds.resize(rounds[at] + 1);
    batches.rounds[rounds[at]].push_back(members[at]);
  }
  return batches;
}

// `subflows`: how many each movable flow has; 0: as many as it says. `weights`: Teams::weights() of `indices`.
Problem pose(const Snapshot& snapshot, const std::vector<ResolvedFlow>& flows, const Indices& indices, uint32_t phase,
             const Homes& homes, uint32_t subflows = 0, const std::vector<double>& weights = {}) {
  Problem problem{
      .fabric = snapshot.fabric, .fixed_bytes = std::vector<uint64_t>(snapshot.fabric->links().size()), .phase = phase};
  for (size_t at = 0; at < indices.size(); ++at) {
    const ResolvedFlow& flow = flows[indices[at]];
    const FlowDemand demand{.bytes = flow.demand->bytes, .subflows = subflows != 0 ? subflows : flow.demand->subflows};
    uint64_t weight = subflow_bytes(demand);
    if (!weights.empty()) weight = static_cast<uint64_t>(std::llround(static_cast<double>(weight) * weights[at]));
    for (fabric::LinkId link : flow.demand->fixed) problem.fixed_bytes[link] += weight * demand.subflows;
    if (!flow.movable() || demand.bytes == 0) continue;
    for (uint32_t subflow = 0; subflow < demand.subflows; ++subflow)
      problem.items.push_back(item_of(flow, subflow, weight, homes));
  }
  return problem;
}

class Planner {
 public:
  Planner(const Snapshot& snapshot, const std::vector<ResolvedFlow>& flows)
      : snapshot_(snapshot),
        fabric_(*snapshot.fabric),
        flows_(flows),
        homes_(fabric_, flows),
        teams_(fabric_, flows),
        first_part_(flows.size() + 1) {
    for (size_t index = 0; index < flows.size(); ++index)
      first_part_[index + 1] = first_part_[index] + flows[index].demand->subflows;
    choice_.resize(first_part_.back(), kNoChoice);
  }

  Plan run() {
    plan_.link_bytes.resize(fabric_.links().size());
    plan_.flows.resize(flows_.size());
    for (const auto& [phase, indices] : phases_of(flows_))
      if (!plan_in_rounds(phase, indices)) plan_together(phase, indices);
    for (size_t index = 0; index < flows_.size(); ++index) {
      const FlowDemand& demand = *flows_[index].demand;
      if (demand.fixed.empty() && !demand.current.empty() && plan_.flows[index].path != demand.current) ++plan_.moves;
    }
    return std::move(plan_);
  }

 private:
  struct Solved {
    Problem problem;
    Solution solution;
    Loads load;  // fixed bytes included
  };

  Solved solved(Problem problem) const {
    Solved solved{std::move(problem), {}, {}};
    solved.solution = solve(solved.problem, snapshot_.options.move_penalty_percent);
    solved.load = load_of(solved.problem, solved.solution.choice);
    return solved;
  }

  // Where there are several teams: fair to each of them, unless the busiest link would pay for that.
  Solved solved_fairly(uint32_t phase, const Indices& indices) const {
    Problem problem = pose(snapshot_, flows_, indices, phase, homes_);
    const std::vector<double> weights = teams_.weights(indices);
    if (weights.empty()) return solved(std::move(problem));
    Solved fair = solved(pose(snapshot_, flows_, indices, phase, homes_, 0, weights));
    fair.problem = std::move(problem);
    fair.load = load_of(fair.problem, fair.solution.choice);
    fair.solution.bounds = lower_bounds(fair.problem);
    const uint64_t drain = max_drain_ns(fabric_, fair.load);
    if (near_enough(drain, fair.solution.bounds.whole_ns, kFairCostPercent)) return fair;
    Solved plain = solved(fair.problem);
    return near_enough(drain, max_drain_ns(fabric_, plain.load), kFairCostPercent) ? fair : plain;
  }

  void plan_together(uint32_t phase, const Indices& indices) {
    const Solved all = solved_fairly(phase, indices);
    take(indices, all.solution);
    account(all.load, max_drain_ns(fabric_, all.load), all.solution.bounds);
    plan_unsized(phase, indices, all.load, mean_weight(all.problem));
    finish(indices, all.load, {});
  }

  // False: it does not pay, and nothing was done.
  bool plan_in_rounds(uint32_t phase, const Indices& indices) {
    if (!snapshot_.options.rounds) return false;
    const Batches batches = batches_of(flows_, indices);
    const auto count = static_cast<uint32_t>(batches.rounds.size());
    if (count < 2) return false;
    const Solved others = solved(pose(snapshot_, flows_, batches.others, phase, homes_));
    Loads share(others.load), total(others.load);
    for (uint64_t& bytes : share) bytes = (bytes + count - 1) / count;
    std::vector<Solved> rounds;
    std::vector<uint64_t> start_ns;
    uint64_t drain = 0, next_start = 0;
    for (uint32_t round = 0; round < count; ++round) {
      Problem problem = pose(snapshot_, flows_, batches.rounds[round], phase + round, homes_);
      problem.fixed_bytes = share;
      rounds.push_back(solved(std::move(problem)));
      const uint64_t round_ns = max_drain_ns(fabric_, rounds.back().load);
      drain += round_ns;
      start_ns.push_back(next_start);
      next_start +=
          (round_ns + round_ns / 100 * snapshot_.options.round_margin_percent) / collectives_of(batches.rounds[round]);
      for (size_t link = 0; link < total.size(); ++link) total[link] += rounds.back().load[link] - share[link];
    }
    drain = std::max(drain, max_drain_ns(fabric_, total));
    const Bounds bounds = lower_bounds(pose(snapshot_, flows_, indices, phase, homes_));
    if (!near_enough(drain, bounds.whole_ns, kMaxRoundCostPercent) || start_ns.back() > snapshot_.options.max_offset_ns)
      return false;
    plan_.rounds = std::max(plan_.rounds, count);
    account(total, drain, bounds);
    take(batches.others, others.solution);
    plan_unsized(phase, batches.others, total, mean_weight(rounds.front().problem));
    Loads exchanged(total);
    for (size_t link = 0; link < total.size(); ++link) exchanged[link] -= others.load[link];
    finish(batches.others, others.load, exchanged);
    for (uint32_t round = 0; round < count; ++round) {
      take(batches.rounds[round], rounds[round].solution);
      finish(batches.rounds[round], rounds[round].load, share);
      for (uint32_t index : batches.rounds[round]) {
        plan_.flows[index].round = round;
        plan_.flows[index].release_offset_ns += start_ns[round];
      }
    }
    return true;
  }

  // A round of the plan holds the bytes of all collectives of the communicators' round, each of which goes in rounds.
  uint64_t collectives_of(const Indices& indices) const {
    uint32_t most = 1;
    for (uint32_t index : indices) most = std::max(most, flows_[index].demand->collectives);
    return most;
  }

  void account(const Loads& load, uint64_t drain_ns, const Bounds& bounds) {
    plan_.max_drain_ns = std::max(plan_.max_drain_ns, drain_ns);
    plan_.lower_bound_ns = std::max(plan_.lower_bound_ns, bounds.whole_ns);
    plan_.fluid_bound_ns = std::max(plan_.fluid_bound_ns, bounds.fluid_ns);
    for (size_t link = 0; link < load.size(); ++link)
      plan_.link_bytes[link] = std::max(plan_.link_bytes[link], load[link]);
  }

  static uint64_t mean_weight(const Problem& problem) {
    uint64_t bytes = 0;
    for (const Item& item : problem.items) bytes += item.weight;
    return problem.items.empty() ? 1 : std::max<uint64_t>(1, bytes / problem.items.size());
  }

  bool sized(uint32_t index) const { return flows_[index].movable() && flows_[index].demand->bytes > 0; }

  // Flows whose size is not known: placed around the others as if they were as big as those are on average.
  void plan_unsized(uint32_t phase, const Indices& indices, const Loads& load, uint64_t weight) {
    Problem problem{.fabric = &fabric_, .fixed_bytes = load, .phase = phase};
    Indices unsized;
    for (uint32_t index : indices)
      if (flows_[index].movable() && !sized(index)) unsized.push_back(index);
    if (unsized.empty()) return;
    for (uint32_t index : unsized)
      for (uint32_t subflow = 0; subflow < flows_[index].demand->subflows; ++subflow)
        problem.items.push_back(item_of(flows_[index], subflow, weight, homes_));
    take_all(unsized, solve(problem, snapshot_.options.move_penalty_percent));
  }

  void take(const Indices& indices, const Solution& solution) {
    Indices posed;
    for (uint32_t index : indices)
      if (sized(index)) posed.push_back(index);
    take_all(posed, solution);
  }

  void take_all(const Indices& indices, const Solution& solution) {
    size_t at = 0;
    for (uint32_t index : indices)
      for (uint32_t part = first_part_[index]; part < first_part_[index + 1]; ++part)
        choice_[part] = solution.choice[at++];
    plan_.method = std::max(plan_.method, solution.method);
  }

  // Paths, backups, offsets and paces of flows that send together, once every subflow has its core. `background`: bytes
  // of flows that are not among them.
  void finish(const Indices& indices, const Loads& load, const Loads& background) {
    for (uint32_t index : indices) {
      FlowAssignment& flow = plan_.flows[index];
      flow.flow_id = flows_[index].demand->flow_id;
      flow.others.resize(flows_[index].demand->subflows - 1);
      for (uint32_t part = first_part_[index]; part < first_part_[index + 1]; ++part)
        path_of(flow, part - first_part_[index]) = flows_[index].path(choice_[part]);
    }
    add_backups(indices, load);
    add_times(indices, background);
  }

  static fabric::Path& path_of(FlowAssignment& flow, uint32_t subflow) {
    return subflow == 0 ? flow.path : flow.others[subflow - 1].path;
  }

  void add_backups(const Indices& indices, const Loads& load) {
    std::vector<FlowWithChoice> chosen;
    for (uint32_t index : indices)
      for (uint32_t part = first_part_[index]; part < first_part_[index + 1]; ++part)
        chosen.push_back({&flows_[index], choice_[part], subflow_bytes(*flows_[index].demand)});
    const auto backups = choose_backups(fabric_, chosen, load, snapshot_.options.backups);
    size_t at = 0;
    for (uint32_t index : indices)
      for (uint32_t subflow = 0; subflow < flows_[index].demand->subflows; ++subflow) {
        FlowAssignment& flow = plan_.flows[index];
        for (uint32_t choice : backups[at++])
          (subflow == 0 ? flow.backups : flow.others[subflow - 1].backups).push_back(flows_[index].path(choice));
      }
  }

  std::vector<ScheduledFlow> scheduled(const Indices& indices) const {
    std::vector<ScheduledFlow> schedule;
    for (uint32_t index : indices) {
      const FlowDemand& demand = *flows_[index].demand;
      schedule.push_back({.paths = {&plan_.flows[index].path},
                          .bytes = subflow_bytes(demand),
                          .collectives = std::max(1u, demand.collectives)});
      for (const SubflowAssignment& other : plan_.flows[index].others) schedule.back().paths.push_back(&other.path);
    }
    return schedule;
  }

  // Flows of one communicator send together. What another sends is not known to come at the same time: to make room for
  // it always would leave links idle while it computes, so that congestion control has to share with it.
  void add_times(const Indices& indices, const Loads& background) {
    std::map<uint64_t, Indices> communicators;
    for (uint32_t index : indices) communicators[flows_[index].demand->comm_id].push_back(index);
    for (const auto& [comm_id, own] : communicators) {
      std::vector<ScheduledFlow> schedule = scheduled(own);
      pace(fabric_, schedule, background);
      for (size_t at = 0; at < own.size(); ++at)
        if (flows_[own[at]].demand->in_step) plan_.flows[own[at]].pace_bps = schedule[at].pace_bps;
    }
    if (!snapshot_.options.stagger) return;
    // Teams are not in step, so that no offset keeps the start of one from that of another.
    std::map<fabric::NodeId, Indices> teams;
    for (uint32_t index : indices) teams[teams_.of(index)].push_back(index);
    for (const auto& [host, own] : teams) {
      std::vector<ScheduledFlow> schedule = scheduled(own);
      stagger(fabric_, schedule, snapshot_.options.min_stagger_ns, snapshot_.options.max_stagger_ns);
      for (size_t at = 0; at < own.size(); ++at)
        plan_.flows[own[at]].release_offset_ns = schedule[at].release_offset_ns;
    }
  }

  const Snapshot& snapshot_;
  const fabric::Graph& fabric_;
  const std::vector<ResolvedFlow>& flows_;
  const Homes homes_;
  const Teams teams_;
  Indices first_part_;  // by flow: its first subflow in choice_
  Choice choice_;       // by subflow
  Plan plan_;
};

// What `measure` says of the slowest phase when every movable flow has `subflows` of them: fairly to all teams, or
// round by round where it has rounds.
template <typename Measure>
Bounds slowest_phase(const Snapshot& snapshot, const std::vector<ResolvedFlow>& flows, const Teams& teams,
                     uint32_t subflows, const Measure& measure) {
  Bounds worst;
  for (const auto& [phase, indices] : phases_of(flows)) {
    Batches batches{indices, {}};
    if (snapshot.options.rounds) batches = batches_of(flows, indices);
    std::vector<double> weights;
    if (batches.rounds.size() < 2) {
      batches = {indices, {}};
      weights = teams.weights(indices);
    }
    Bounds sum = measure(pose(snapshot, flows, batches.others, phase, {}, subflows, weights));
    for (const Indices& round : batches.rounds) {
      const Bounds more = measure(pose(snapshot, flows, round, phase, {}, subflows));
      sum = {sum.whole_ns + more.whole_ns, sum.fluid_ns + more.fluid_ns};
    }
    worst = {std::max(worst.whole_ns, sum.whole_ns), std::max(worst.fluid_ns, sum.fluid_ns)};
  }
  return worst;
}

}  // namespace

Result<Plan> plan(const Snapshot& snapshot) {
  if (snapshot.fabric == nullptr)
    return Error{ErrorCode::kInvalidArgument, "the snapshot has no fabric; load a topology first"};
  CoreTable table(*snapshot.fabric);
  ORRERY_ASSIGN(const std::vector<ResolvedFlow> flows, resolve(snapshot, table));
  return Planner(snapshot, flows).run();
}

Result<uint32_t> least_subflows(const Snapshot& snapshot, uint32_t limit, uint32_t tolerance_percent) {
  if (snapshot.fabric == nullptr)
    return Error{ErrorCode::kInvalidArgument, "the snapshot has no fabric; load a topology first"};
  CoreTable table(*snapshot.fabric);
  ORRERY_ASSIGN(const std::vector<ResolvedFlow> flows, resolve(snapshot, table));
  const Teams teams(*snapshot.fabric, flows);
  const auto solved = [&](const Problem& problem) -> Bounds {
    const Solution solution = solve(problem, snapshot.options.move_penalty_percent);
    return {max_drain_ns(*snapshot.fabric, load_of(problem, solution.choice)), 0};
  };
  uint32_t best = 1;
  uint64_t best_ns = UINT64_MAX;
  limit = std::min(limit, kMaxSubflows);
  for (uint32_t subflows = 1; subflows <= limit;) {
    const Bounds bounds = slowest_phase(snapshot, flows, teams, subflows, lower_bounds);
    const bool may_do = near_enough(bounds.whole_ns, bounds.fluid_ns, tolerance_percent);
    const uint64_t least_ns =
        may_do ? slowest_phase(snapshot, flows, teams, subflows, solved).whole_ns : bounds.whole_ns;
    if (may_do && near_enough(least_ns, bounds.fluid_ns, tolerance_percent)) return subflows;
    if (least_ns < best_ns) best_ns = least_ns, best = subflows;
    // Where the search misses what the bound allows, much finer grain helps rather than one more.
    subflows = may_do && subflows < limit ? std::min(limit, 2 * subflows) : subflows + 1;
  }
  return best;
}

}  // namespace orrery::planner
