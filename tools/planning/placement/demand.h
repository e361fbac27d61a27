// Who sends how much to whom in one iteration of a scenario's jobs, before anyone is placed.
//
// Slots are a job's hosts in rank order (a host of a scenario is one NIC). The bytes are those that the simulator would
// send: its own collectives are asked, with rings in one step, which keeps their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/sim/scenario/scenario.h"

namespace orrery::planning {

struct Pair {
  uint32_t a = 0, b = 0;  // slots, a < b
  double bytes = 0;       // both directions
};

struct Demand {
  std::string name;
  uint32_t slots = 0;
  uint32_t ranks_per_slot = 1;
  std::vector<Pair> pairs;              // sorted, no two of the same slots
  std::vector<std::string> host_names;  // where it runs already; empty: not said
};

// The scenario's jobs, then its workload file as one. Errors: those of reading it; kExhausted when it is too much.
Result<std::vector<Demand>> demands_of(const sim::Scenario& scenario);

}  // namespace orrery::planning
