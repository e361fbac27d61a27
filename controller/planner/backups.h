// Backup paths: where a flow goes when a cable or a switch of its path fails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/planner/problem.h"

namespace orrery::planner {

struct FlowWithChoice {
  const ResolvedFlow* flow = nullptr;
  uint32_t choice = kNoChoice;
  uint64_t bytes = 0;  // of the subflow
};

// Per subflow up to `wanted` cores, best first: the fewest links shared with the primary and with the backups before
// it, then those on which the busiest link drains soonest after any one failure, of a cable or of a switch between the
// ends, that the flow would have to leave for. What else leaves and comes by the same failure counts, as do `bytes` (by
// LinkId, with all primaries on them). Empty for fixed flows and where there is no other core.
std::vector<std::vector<uint32_t>> choose_backups(const fabric::Graph& fabric, std::span<const FlowWithChoice> flows,
                                                  std::span<const uint64_t> bytes, uint32_t wanted);

}  // namespace orrery::planner
