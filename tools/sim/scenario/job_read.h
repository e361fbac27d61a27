// Scenario files: what their jobs do, step by step or as another tool's file says.
#pragma once

#include <optional>
#include <vector>

#include "tools/sim/scenario/map_reader.h"
#include "tools/sim/scenario/scenario.h"

namespace orrery::sim {

// The keys "jobs" and "workload" of the scenario. What is wrong goes to `mistakes`; what is right is read all the same.
void read_jobs(MapReader& map, std::vector<ScenarioJob>& jobs, fabric::Mistakes& mistakes);
void read_workload(MapReader& map, std::optional<ScenarioWorkload>& workload, fabric::Mistakes& mistakes);

}  // namespace orrery::sim
