// A link that fails or comes back.
#pragma once

#include "tools/sim/model/types.h"

namespace orrery::sim {

// Queue pairs know of the change a detection delay later and take their backup, or another of their paths.
struct Fault {
  Time at = 0;
  uint32_t link = kNone;  // fabric::LinkId; a cable that is cut is two
  bool up = false;
};

}  // namespace orrery::sim
