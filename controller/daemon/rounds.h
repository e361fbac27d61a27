// What every communicator calls in a round of its job, so that the planner hears of a round's bytes and of how many
// collectives these are. A job's round is the longest that any of its communicators repeats, unless that one hardly
// sends: one all-reduce of a gradient may go with a hundred all-to-alls of another communicator, which by itself
// repeats after each. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/daemon/communicators.h"
#include "controller/fabric/graph.h"
#include "controller/forecast/forecaster.h"

namespace orrery::daemon {

struct CommunicatorRound {
  uint64_t comm_id = 0;
  std::vector<Calls> calls;  // of each operation once, in their order
};

// Of the communicators that repeat and have called something in the last rounds of their job. None at all where there
// are more ranks than may be looked at between two messages.
inline constexpr size_t kMaxRanksLookedAt = 1u << 18;
std::vector<CommunicatorRound> find_rounds(const fabric::Graph& fabric, const CommunicatorBook& communicators,
                                           const forecast::Forecaster& forecaster, size_t limit = kMaxRanksLookedAt);

}  // namespace orrery::daemon
