#include "controller/planner/planner.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "controller/planner/backups.h"
#include "controller/planner/bounds.h"
#include "controller/planner/colouring.h"
#include "controller/planner/problem.h"
#include "controller/planner/schedule.h"
#include "controller/planner/search.h"

namespace orrery::planner {
namespace {

struct Solution {
  Choice choice;
  Method method = Method::kNone;
  Bounds bounds;
};

// Whether a plan of `drain` is so near to one of `best` that moving flows is not worth it.
bool near_enough(uint64_t drain, uint64_t best, uint32_t penalty_percent) {
  return static_cast<unsigned __int128>(drain) * 100 <= static_cast<unsigned __int128>(best) * (100 + penalty_percent);
}

bool any_current(const Problem& problem) {
  return std::any_of(problem.items.begin(), problem.items.end(),
                     [](const Item& item) { return item.current != kNoChoice; });
}

bool any_choice(const Problem& problem) {
  return std::any_of(problem.items.begin(), problem.items.end(),
                     [](const Item& item) { return item.cores->size() > 1; });
}

Choice solve_min_max(const Problem& problem, const Search& kept, uint64_t bound_ns, uint32_t penalty_percent) {
  Search fresh(problem);
  fresh.place_rest();
  fresh.lower_maximum(bound_ns);
  if (!any_current(problem)) {
    fresh.even_out();
    return fresh.choice();
  }
  Search improved = kept;
  improved.lower_maximum(bound_ns);
  const uint64_t best = std::min(improved.max_drain_ns(), fresh.max_drain_ns());
  if (near_enough(kept.max_drain_ns(), best, penalty_percent)) return kept.choice();
  // Again, but only as far as moves pay.
  Search frugal = kept;
  frugal.lower_maximum(best + best / 100 * penalty_percent);
  for (const Search* search : {&frugal, &improved})
    if (near_enough(search->max_drain_ns(), best, penalty_percent)) return search->choice();
  return fresh.choice();
}

Solution solve(const Problem& problem, uint32_t penalty_percent) {
  Solution solution{.bounds = lower_bounds(problem)};
  const uint64_t bound_ns = solution.bounds.whole_ns;
  const std::optional<Choice> coloured = colour_clos(problem);
  if (any_choice(problem)) solution.method = coloured ? Method::kEdgeColouring : Method::kMinMax;
  Search kept(problem);
  if (any_current(problem)) {
    kept.keep_current();
    kept.place_rest();
    if (near_enough(kept.max_drain_ns(), bound_ns, penalty_percent)) {
      if (kept.max_drain_ns() > bound_ns && coloured) solution.method = Method::kMinMax;
      solution.choice = kept.choice();
      return solution;
    }
  }
  solution.choice = coloured ? *coloured : solve_min_max(problem, kept, bound_ns, penalty_percent);
  return solution;
}

using Indices = std::vector<uint32_t>;

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
Item item_of(const ResolvedFlow& flow, uint32_t subflow, uint64_t weight) {
  return {.weight = weight,
          .up = flow.src->uplink,
          .down = flow.down,
          .cores = flow.cores,
          .current = subflow == 0 ? flow.current : kNoChoice};
}

class Planner {
 public:
  Planner(const Snapshot& snapshot, const std::vector<ResolvedFlow>& flows)
      : snapshot_(snapshot), fabric_(*snapshot.fabric), flows_(flows), first_part_(flows.size() + 1) {
    for (size_t index = 0; index < flows.size(); ++index)
      first_part_[index + 1] = first_part_[index] + flows[index].demand->subflows;
    choice_.resize(first_part_.back(), kNoChoice);
  }

  Plan run() {
    plan_.link_bytes.resize(fabric_.links().size());
    plan_.flows.resize(flows_.size());
    for (const auto& [phase, indices] : phases_of(flows_)) plan_phase(phase, indices);
    for (size_t index = 0; index < flows_.size(); ++index) {
      const FlowDemand& demand = *flows_[index].demand;
      if (demand.fixed.empty() && !demand.current.empty() && plan_.flows[index].path != demand.current) ++plan_.moves;
    }
    return std::move(plan_);
  }

 private:
  void plan_phase(uint32_t phase, const Indices& indices) {
    Problem problem{.fabric = &fabric_, .fixed_bytes = std::vector<uint64_t>(fabric_.links().size()), .phase = phase};
    Indices sized, unsized;
    for (uint32_t index : indices) {
      const ResolvedFlow& flow = flows_[index];
      for (fabric::LinkId link : flow.demand->fixed)
        problem.fixed_bytes[link] += subflow_bytes(*flow.demand) * flow.demand->subflows;
      if (flow.movable()) (flow.demand->bytes > 0 ? sized : unsized).push_back(index);
    }
    for (uint32_t index : sized) add_items(problem, index, subflow_bytes(*flows_[index].demand));
    const Solution solution = solve(problem, snapshot_.options.move_penalty_percent);
    take(sized, solution);
    const std::vector<uint64_t> load = load_of(problem, solution.choice);
    plan_.max_drain_ns = std::max(plan_.max_drain_ns, max_drain_ns(fabric_, load));
    plan_.lower_bound_ns = std::max(plan_.lower_bound_ns, solution.bounds.whole_ns);
    plan_.fluid_bound_ns = std::max(plan_.fluid_bound_ns, solution.bounds.fluid_ns);
    for (size_t link = 0; link < load.size(); ++link)
      plan_.link_bytes[link] = std::max(plan_.link_bytes[link], load[link]);
    plan_unsized(phase, unsized, load, mean_weight(problem));
    finish(indices, load);
  }

  static uint64_t mean_weight(const Problem& problem) {
    uint64_t bytes = 0;
    for (const Item& item : problem.items) bytes += item.weight;
    return problem.items.empty() ? 1 : std::max<uint64_t>(1, bytes / problem.items.size());
  }

  // Flows whose size is not known: placed around the others as if they were as big as those are on average.
  void plan_unsized(uint32_t phase, const Indices& indices, const std::vector<uint64_t>& load, uint64_t weight) {
    if (indices.empty()) return;
    Problem problem{.fabric = &fabric_, .fixed_bytes = load, .phase = phase};
    for (uint32_t index : indices) add_items(problem, index, weight);
    take(indices, solve(problem, snapshot_.options.move_penalty_percent));
  }

  void add_items(Problem& problem, uint32_t index, uint64_t weight) const {
    for (uint32_t subflow = 0; subflow < flows_[index].demand->subflows; ++subflow)
      problem.items.push_back(item_of(flows_[index], subflow, weight));
  }

  void take(const Indices& indices, const Solution& solution) {
    size_t at = 0;
    for (uint32_t index : indices)
      for (uint32_t part = first_part_[index]; part < first_part_[index + 1]; ++part)
        choice_[part] = solution.choice[at++];
    plan_.method = std::max(plan_.method, solution.method);
  }

  // Paths, backups, offsets and paces, once every subflow of the phase has its core.
  void finish(const Indices& indices, const std::vector<uint64_t>& load) {
    for (uint32_t index : indices) {
      FlowAssignment& flow = plan_.flows[index];
      flow.flow_id = flows_[index].demand->flow_id;
      flow.others.resize(flows_[index].demand->subflows - 1);
      for (uint32_t part = first_part_[index]; part < first_part_[index + 1]; ++part)
        path_of(flow, part - first_part_[index]) = flows_[index].path(choice_[part]);
    }
    add_backups(indices, load);
    add_times(indices);
  }

  static fabric::Path& path_of(FlowAssignment& flow, uint32_t subflow) {
    return subflow == 0 ? flow.path : flow.others[subflow - 1].path;
  }

  void add_backups(const Indices& indices, const std::vector<uint64_t>& load) {
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

  void add_times(const Indices& indices) {
    std::vector<ScheduledFlow> schedule;
    for (uint32_t index : indices) {
      schedule.push_back({.paths = {&plan_.flows[index].path}, .bytes = subflow_bytes(*flows_[index].demand)});
      for (const SubflowAssignment& other : plan_.flows[index].others) schedule.back().paths.push_back(&other.path);
    }
    pace(fabric_, schedule);
    if (snapshot_.options.stagger) stagger(fabric_, schedule);
    for (size_t at = 0; at < indices.size(); ++at) {
      plan_.flows[indices[at]].release_offset_ns = schedule[at].release_offset_ns;
      plan_.flows[indices[at]].pace_bps = schedule[at].pace_bps;
    }
  }

  const Snapshot& snapshot_;
  const fabric::Graph& fabric_;
  const std::vector<ResolvedFlow>& flows_;
  Indices first_part_;  // by flow: its first subflow in choice_
  Choice choice_;       // by subflow
  Plan plan_;
};

// Bounds of the slowest phase when every movable flow has `subflows` of them.
Bounds bounds_with(const Snapshot& snapshot, const std::vector<ResolvedFlow>& flows, uint32_t subflows) {
  Bounds worst;
  for (const auto& [phase, indices] : phases_of(flows)) {
    Problem problem{.fabric = snapshot.fabric,
                    .fixed_bytes = std::vector<uint64_t>(snapshot.fabric->links().size()),
                    .phase = phase};
    for (uint32_t index : indices) {
      const FlowDemand& demand = *flows[index].demand;
      for (fabric::LinkId link : demand.fixed) problem.fixed_bytes[link] += planned_bytes(demand);
      if (!flows[index].movable() || demand.bytes == 0) continue;
      const uint64_t weight = (planned_bytes(demand) + subflows - 1) / subflows;
      for (uint32_t subflow = 0; subflow < subflows; ++subflow)
        problem.items.push_back(item_of(flows[index], subflow, weight));
    }
    const Bounds bounds = lower_bounds(problem);
    worst = {std::max(worst.whole_ns, bounds.whole_ns), std::max(worst.fluid_ns, bounds.fluid_ns)};
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
  uint32_t best = 1;
  uint64_t best_ns = UINT64_MAX;
  for (uint32_t subflows = 1; subflows <= std::min(limit, kMaxSubflows); subflows *= 2) {
    const Bounds bounds = bounds_with(snapshot, flows, subflows);
    if (near_enough(bounds.whole_ns, bounds.fluid_ns, tolerance_percent)) return subflows;
    if (bounds.whole_ns >= best_ns) continue;
    best_ns = bounds.whole_ns;
    best = subflows;
  }
  return best;
}

}  // namespace orrery::planner
