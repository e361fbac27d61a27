// Lower bounds on the drain time of the busiest link, whatever the assignment.
//
// Every bound looks at a cut: links of which each of some flows must cross exactly one. Three arguments hold for a cut,
// and the largest counts: the cut's whole load over its whole rate; the heaviest flow over the fastest link; and, as
// flows cannot be split, how many flows of at least a given size fit into the links by a given time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/planner/problem.h"

namespace orrery::planner {

struct Bin {
  uint64_t rate_bps = 0;
  uint64_t fixed_bytes = 0;
};

// Least time in which every weight (bytes, descending) can be sent through one of `bins` beside what is fixed there.
uint64_t cut_bound_ns(std::span<const Bin> bins, std::span<const uint64_t> weights);

struct Bounds {
  uint64_t whole_ns = 0;  // flows stay whole
  uint64_t fluid_ns = 0;  // flows may be split at will
  uint64_t cores_ns = 0;  // flows stay whole, and only links between switches count
};
Bounds lower_bounds(const Problem& problem);
inline uint64_t lower_bound_ns(const Problem& problem) {
  return lower_bounds(problem).whole_ns;
}

}  // namespace orrery::planner
