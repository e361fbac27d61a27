// Release offsets and paces for flows that share a link within a phase.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/fabric/graph.h"

namespace orrery::planner {

struct ScheduledFlow {
  std::vector<const fabric::Path*> paths;  // of its subflows; not null, may be empty
  uint64_t bytes = 0;                      // of each subflow
  uint32_t collectives = 1;                // that `bytes` is of
  uint64_t release_offset_ns = 0;          // out
  uint64_t pace_bps = 0;                   // out; 0: unpaced
};

// Flows that send at the same time, those first that shall start first. On every shared link starts are at least queue
// bytes / (rate * flows there) apart, but within the bounds given, so that the starts together fill no more than the
// queue; less where the link would have sent all its bytes soon after. Waiting shall not cost more than the collision:
// where the last start, after chains of shared links, would come later than a hundredth of the time that the busiest
// such link needs for a collective, all starts that the chains join move together in proportion. The sender's own link
// needs no offsets: its queue is the sender's, which is pushed back instead of losing packets.
void stagger(const fabric::Graph& fabric, std::span<ScheduledFlow> flows, uint64_t min_step_ns = 0,
             uint64_t max_step_ns = UINT64_MAX);

// Each subflow's share of its tightest shared link, by bytes, so that those that share a link end together; paces on a
// link add up to its rate at most. As the subflows of a flow are paced alike, the slowest sets the pace of all. A flow
// alone on all its links is unpaced. `background`: bytes by LinkId that others send meanwhile; may be empty.
void pace(const fabric::Graph& fabric, std::span<ScheduledFlow> flows, std::span<const uint64_t> background = {});

}  // namespace orrery::planner
