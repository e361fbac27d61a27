#include "controller/planner/solve.h"

#include <algorithm>

#include "controller/planner/clos_colouring.h"
#include "controller/planner/search.h"

namespace orrery::planner {
namespace {

bool any_current(const Problem& problem) {
  return std::any_of(problem.items.begin(), problem.items.end(),
                     [](const Item& item) { return item.current != kNoChoice; });
}

bool any_home(const Problem& problem) {
  return std::any_of(problem.items.begin(), problem.items.end(),
                     [](const Item& item) { return item.home != kNoChoice; });
}

bool any_choice(const Problem& problem) {
  return std::any_of(problem.items.begin(), problem.items.end(),
                     [](const Item& item) { return item.cores->size() > 1; });
}

// `start`: what to begin with, or nothing.
Choice solve_min_max(const Problem& problem, const Search& kept, const std::optional<Choice>& start,
                     const Bounds& bounds, uint32_t penalty_percent) {
  const uint64_t bound_ns = bounds.whole_ns;
  Search fresh(problem);
  if (start)
    fresh.begin(*start);
  else
    fresh.settle(bounds.cores_ns);
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

Solution solve_as_posed(const Problem& problem, uint32_t penalty_percent) {
  Solution solution{.bounds = lower_bounds(problem)};
  const uint64_t bound_ns = solution.bounds.whole_ns;
  const std::optional<Choice> coloured = colour_clos(problem);
  const bool exact = coloured && std::find(coloured->begin(), coloured->end(), kNoChoice) == coloured->end() &&
                     max_drain_ns(*problem.fabric, load_of(problem, *coloured)) <= bound_ns;
  if (any_choice(problem)) solution.method = exact ? Method::kEdgeColouring : Method::kMinMax;
  Search kept(problem);
  if (any_current(problem)) {
    kept.keep_current();
    kept.settle(solution.bounds.cores_ns);
    kept.place_rest();
    if (near_enough(kept.max_drain_ns(), bound_ns, penalty_percent)) {
      if (kept.max_drain_ns() > bound_ns && exact) solution.method = Method::kMinMax;
      solution.choice = kept.choice();
      return solution;
    }
  }
  solution.choice = exact ? *coloured : solve_min_max(problem, kept, coloured, solution.bounds, penalty_percent);
  return solution;
}

}  // namespace

// Homes count for nothing where the busiest link would drain later for them.
Solution solve(const Problem& problem, uint32_t penalty_percent) {
  Solution solution = solve_as_posed(problem, penalty_percent);
  const auto drain = [&](const Solution& of) { return max_drain_ns(*problem.fabric, load_of(problem, of.choice)); };
  if (!any_home(problem) || drain(solution) <= solution.bounds.whole_ns) return solution;
  Problem homeless = problem;
  for (Item& item : homeless.items) item.home = kNoChoice;
  Solution other = solve_as_posed(homeless, penalty_percent);
  return drain(other) < drain(solution) ? other : solution;
}

}  // namespace orrery::planner
