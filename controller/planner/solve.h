// Solves one assignment problem: by edge colouring where that reaches the lower bound, else by search.
#pragma once

#include "controller/planner/bounds.h"
#include "controller/planner/planner.h"
#include "controller/planner/problem.h"

namespace orrery::planner {

struct Solution {
  Choice choice;
  Method method = Method::kNone;
  Bounds bounds;
};

// Keeps current cores where all of them together are within `penalty_percent` of the best found; of other flows as many
// at home as the optimum allows.
Solution solve(const Problem& problem, uint32_t penalty_percent);

// Whether a plan of `drain` is so near to one of `best` that moving flows is not worth it.
inline bool near_enough(uint64_t drain, uint64_t best, uint32_t penalty_percent) {
  return static_cast<unsigned __int128>(drain) * 100 <= static_cast<unsigned __int128>(best) * (100 + penalty_percent);
}

}  // namespace orrery::planner
