// An estimated iteration as a scenario file of orrery-sim.
//
// A host of the scenario is one NIC, so a rank has as many "hosts" or shares of one as it has of NICs. What stays
// within a host by NVLink is part of the computation. The collectives of a kind are one, or one for each of a few parts
// of the backward pass: bytes and groups are kept, their number is not.
#pragma once

#include <string>

#include "common/base/result.h"
#include "tools/planning/estimate/estimate.h"

namespace orrery::planning {

struct ScenarioOptions {
  std::string name = "estimate";
  std::string topology;  // file; empty: a leaf-spine without oversubscription is made
  uint32_t iterations = 2;
};

// Errors: kInvalidArgument when the hosts have more NICs than GPUs or not all groups are of equal shape.
Result<std::string> scenario_of(const Estimate& estimate, const ScenarioOptions& options);

}  // namespace orrery::planning
