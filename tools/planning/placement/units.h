// What is placed as a whole: so many consecutive slots of a job on so many consecutive NICs, which are those of one
// server. Inside a unit nothing moves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/planning/placement/place.h"

namespace orrery::planning {

struct Units {
  Units(const Sites& nic_sites, const std::vector<Demand>& nic_demands, const std::vector<bool>& free_nics,
        uint32_t nics_of_unit);

  // Nothing when a unit is torn.
  std::optional<Assignment> of(const Assignment& nics) const;
  Assignment expand(const Assignment& units) const;
  bool room() const;  // for all of them

  uint32_t size;  // NICs
  Sites sites;
  std::vector<Demand> demands;
  std::vector<bool> free;
};

}  // namespace orrery::planning
