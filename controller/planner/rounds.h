// Rounds for exchanges (all-to-all): in each, a NIC sends to one other and receives from one other, so that no receiver
// is sent more than its link takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/fabric/graph.h"

namespace orrery::planner {

struct ExchangeFlow {
  fabric::LinkId up = fabric::kNone;
  fabric::LinkId down = fabric::kNone;
  uint64_t bytes = 0;
};

// The round of each flow, from 0 on. Flows of equal size take as many rounds as the busiest NIC has flows, which is the
// least possible (D. König, 1916). Others are put together by size, since a round lasts as long as its largest flow:
// as few rounds as possible, or the largest flows first, each in the first round with room, whichever takes less time.
// The largest come first. `flows` by descending size.
std::vector<uint32_t> rounds_of(std::span<const ExchangeFlow> flows);

}  // namespace orrery::planner
