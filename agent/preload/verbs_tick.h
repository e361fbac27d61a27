// The time for a post, and whatever is due by then: a look at the agent, a fresh calibration of the clock.
#pragma once

#include "agent/preload/attach.h"
#include "agent/preload/qp_table.h"
#include "agent/preload/verbs_clock.h"

namespace orrery::preload {

uint64_t tick_slow_and_read();  // verbs_data.cpp

inline uint64_t hot_now_ns() {
  const uint64_t now = fast_now_ns();
  if (now >= __atomic_load_n(&next_tick_ns, __ATOMIC_RELAXED)) [[unlikely]]
    return tick_slow_and_read();
  return now;
}

inline bool begins_burst(const Qp& qp, uint64_t now) {
  return static_cast<int64_t>(now - qp.last_tx_ns) > static_cast<int64_t>(attachment.flowlet_gap_ns);
}

}  // namespace orrery::preload
