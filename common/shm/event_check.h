// Which events a hostile process may make the agent believe: every field in range, nothing more is promised.
#pragma once

#include "common/abi/event_abi.h"

namespace orrery::shm {

inline constexpr uint32_t kMaxRanks = 1u << 20;
// An event may be stamped this much after the drain that sees it: clocks of two CPUs are read a little apart.
inline constexpr uint64_t kFutureToleranceNs = 1'000'000'000;

// `event` is a private copy. `now_ns` is CLOCK_MONOTONIC.
bool is_well_formed(const orrery_event& event, uint32_t flow_slots, uint64_t now_ns);

}  // namespace orrery::shm
