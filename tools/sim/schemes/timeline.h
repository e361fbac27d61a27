// When jobs send what, if nothing but NICs, paces and their own dependencies limit them: what a controller learns from
// watching them. Pure.
#pragma once

#include <span>
#include <vector>

#include "controller/planner/phase_offsets.h"
#include "tools/sim/model/lowering.h"
#include "tools/sim/model/traffic.h"

namespace orrery::sim {

struct JobTimeline {
  planner::PeriodicJob job;  // of one round; period 0: the job has no rounds
  Time begin = 0;            // of its first round
};

// By job. `routes`: by flow, as for lower().
std::vector<JobTimeline> timeline_of(const Traffic& traffic, const fabric::Graph& graph,
                                     std::span<const FlowRoute> routes);

}  // namespace orrery::sim
