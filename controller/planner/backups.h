// Backup paths: where a flow goes when a link of its path fails.
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
// it, then the least loaded, counting `bytes` (by LinkId) and the backups given so far. Empty for fixed flows and where
// there is no other core.
std::vector<std::vector<uint32_t>> choose_backups(const fabric::Graph& fabric, std::span<const FlowWithChoice> flows,
                                                  std::span<const uint64_t> bytes, uint32_t wanted);

}  // namespace orrery::planner
