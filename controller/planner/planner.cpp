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
  uint64_t lower_bound_ns = 0;
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
  Solution solution{.lower_bound_ns = lower_bound_ns(problem)};
  const std::optional<Choice> coloured = colour_clos(problem);
  if (any_choice(problem)) solution.method = coloured ? Method::kEdgeColouring : Method::kMinMax;
  Search kept(problem);
  if (any_current(problem)) {
    kept.keep_current();
    kept.place_rest();
    if (near_enough(kept.max_drain_ns(), solution.lower_bound_ns, penalty_percent)) {
      if (kept.max_drain_ns() > solution.lower_bound_ns && coloured) solution.method = Method::kMinMax;
      solution.choice = kept.choice();
      return solution;
    }
  }
  solution.choice = coloured ? *coloured : solve_min_max(problem, kept, solution.lower_bound_ns, penalty_percent);
  return solution;
}

class Planner {
 public:
  Planner(const Snapshot& snapshot, const std::vector<ResolvedFlow>& flows)
      : snapshot_(snapshot), fabric_(*snapshot.fabric), flows_(flows), choice_(flows.size(), kNoChoice) {}

  Plan run() {
    plan_.link_bytes.resize(fabric_.links().size());
    plan_.flows.resize(flows_.size());
    for (const auto& [phase, indices] : phases()) plan_phase(phase, indices);
    for (size_t index = 0; index < flows_.size(); ++index) {
      const FlowDemand& demand = *flows_[index].demand;
      if (demand.fixed.empty() && !demand.current.empty() && plan_.flows[index].path != demand.current) ++plan_.moves;
    }
    return std::move(plan_);
  }

 private:
  using Indices = std::vector<uint32_t>;

  // The flows of each phase, heaviest first, in an order that does not depend on the snapshot's.
  std::map<uint32_t, Indices> phases() const {
    std::map<uint32_t, Indices> phases;
    for (uint32_t index = 0; index < flows_.size(); ++index) phases[flows_[index].demand->phase].push_back(index);
    const auto key = [&](uint32_t index) {
      const FlowDemand& demand = *flows_[index].demand;
      return std::tuple(~planned_bytes(demand), demand.src, demand.dst, demand.flow_id);
    };
    for (auto& [phase, indices] : phases)
      std::sort(indices.begin(), indices.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    return phases;
  }

  void plan_phase(uint32_t phase, const Indices& indices) {
    Problem problem{.fabric = &fabric_, .fixed_bytes = std::vector<uint64_t>(fabric_.links().size()), .phase = phase};
    Indices sized, unsized;
    uint64_t bytes = 0;
    for (uint32_t index : indices) {
      const ResolvedFlow& flow = flows_[index];
      for (fabric::LinkId link : flow.demand->fixed) problem.fixed_bytes[link] += planned_bytes(*flow.demand);
      if (!flow.movable()) continue;
      (planned_bytes(*flow.demand) > 0 ? sized : unsized).push_back(index);
      bytes += planned_bytes(*flow.demand);
    }
    for (uint32_t index : sized) problem.items.push_back(item_of(flows_[index], planned_bytes(*flows_[index].demand)));
    const Solution solution = solve(problem, snapshot_.options.move_penalty_percent);
    take(sized, solution);
    const std::vector<uint64_t> load = load_of(problem, solution.choice);
    plan_.max_drain_ns = std::max(plan_.max_drain_ns, max_drain_ns(fabric_, load));
    plan_.lower_bound_ns = std::max(plan_.lower_bound_ns, solution.lower_bound_ns);
    for (size_t link = 0; link < load.size(); ++link)
      plan_.link_bytes[link] = std::max(plan_.link_bytes[link], load[link]);
    if (!unsized.empty()) plan_unsized(phase, unsized, load, sized.empty() ? 1 : bytes / sized.size());
    finish(indices, load);
  }

  // Flows whose size is not known: placed around the others as if they were as big as those are on average.
  void plan_unsized(uint32_t phase, const Indices& indices, const std::vector<uint64_t>& load, uint64_t weight) {
    Problem problem{.fabric = &fabric_, .fixed_bytes = load, .phase = phase};
    for (uint32_t index : indices) problem.items.push_back(item_of(flows_[index], std::max<uint64_t>(1, weight)));
    take(indices, solve(problem, snapshot_.options.move_penalty_percent));
  }

  static Item item_of(const ResolvedFlow& flow, uint64_t weight) {
    return {.weight = weight, .up = flow.src->uplink, .down = flow.down, .cores = flow.cores, .current = flow.current};
  }

  void take(const Indices& indices, const Solution& solution) {
    for (size_t at = 0; at < indices.size(); ++at) choice_[indices[at]] = solution.choice[at];
    plan_.method = std::max(plan_.method, solution.method);
  }

  // Paths, backups, offsets and paces, once every flow of the phase has its core.
  void finish(const Indices& indices, const std::vector<uint64_t>& load) {
    std::vector<FlowWithChoice> chosen;
    for (uint32_t index : indices) {
      chosen.push_back({&flows_[index], choice_[index]});
      plan_.flows[index].flow_id = flows_[index].demand->flow_id;
      plan_.flows[index].path = flows_[index].path(choice_[index]);
    }
    const auto backups = choose_backups(fabric_, chosen, load, snapshot_.options.backups);
    std::vector<ScheduledFlow> schedule;
    for (size_t at = 0; at < indices.size(); ++at) {
      FlowAssignment& flow = plan_.flows[indices[at]];
      for (uint32_t choice : backups[at]) flow.backups.push_back(flows_[indices[at]].path(choice));
      schedule.push_back({.path = &flow.path, .bytes = planned_bytes(*flows_[indices[at]].demand)});
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
  Choice choice_;
  Plan plan_;
};

}  // namespace

Result<Plan> plan(const Snapshot& snapshot) {
  if (snapshot.fabric == nullptr)
    return Error{ErrorCode::kInvalidArgument, "the snapshot has no fabric; load a topology first"};
  CoreTable table(*snapshot.fabric);
  ORRERY_ASSIGN(const std::vector<ResolvedFlow> flows, resolve(snapshot, table));
  return Planner(snapshot, flows).run();
}

}  // namespace orrery::planner
