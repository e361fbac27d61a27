// What breaks, and what mends it.
#pragma once

#include "tools/sim/model/types.h"

namespace orrery::sim {

enum class FaultKind : uint8_t {
  // A link fails or comes back. Queue pairs know of it a detection delay later and take their backup, or another of
  // their paths.
  kLink,
  // The NIC at the end of the link holds its switch port paused (PFC), as broken NICs do, or stops it.
  kPausingNic
};

struct Fault {
  Time at = 0;
  uint32_t link = kNone;  // fabric::LinkId; a cable that is cut is two
  bool up = false;        // well again
  FaultKind kind = FaultKind::kLink;
};

}  // namespace orrery::sim
