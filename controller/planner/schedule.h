// Release offsets and paces for flows that share a link within a phase.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/fabric/graph.h"

namespace orrery::planner {

struct ScheduledFlow {
  const fabric::Path* path = nullptr;  // not null, may be empty
  uint64_t bytes = 0;
  uint64_t release_offset_ns = 0;  // out
  uint64_t pace_bps = 0;           // out; 0: unpaced
};

// Flows of one phase, in the order in which they shall start. On every shared link a flow starts at least queue bytes /
// (rate * flows there) after the one before it, so that the starts of a phase together fill no more than the queue. The
// sender's own link needs no offsets: its queue is the sender's, which is pushed back instead of losing packets.
void stagger(const fabric::Graph& fabric, std::span<ScheduledFlow> flows);

// Each flow's share of its tightest shared link, by bytes, so that flows that share a link end together; paces on a
// link add up to its rate at most. A flow alone on all its links is unpaced.
void pace(const fabric::Graph& fabric, std::span<ScheduledFlow> flows);

}  // namespace orrery::planner
