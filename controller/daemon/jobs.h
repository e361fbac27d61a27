// Jobs: communicators that have hosts in common wait for each other, so they are delayed together or not at all. And
// when each job sends over the links that it shares with others, as far as that repeats. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "controller/daemon/communicators.h"
#include "controller/fabric/graph.h"
#include "controller/forecast/forecaster.h"
#include "controller/planner/phase_offsets.h"

namespace orrery::daemon {

struct Job {
  planner::PeriodicJob rhythm;  // its id: of the communicator that keeps the busiest link busy for longest
  uint32_t collectives = 0;     // in a period
};

// The busiest of the links that the same jobs use.
struct SharedLink {
  fabric::LinkId link = fabric::kNone;
  std::vector<uint32_t> jobs;  // indices, ascending; at least two
  double busy = 0;             // seconds per round, of all of them together
};

struct Jobs {
  std::vector<Job> jobs;           // those that share a link with another
  std::vector<SharedLink> shared;  // busiest first
  std::vector<uint32_t> of_host;   // by NodeId: index in jobs, or fabric::kNone
};

struct JobSources {
  const fabric::Graph& fabric;
  const CommunicatorBook& communicators;
  const forecast::Forecaster& forecaster;
  std::function<const fabric::Path*(const AddressPair&)> path_of;  // in the plan; null: none
  std::function<bool(const std::string&)> keeps_time;              // whether a host's clock can be trusted
};

// A communicator takes part that repeats, with a jitter of at most a fifth of its period, was not silent for the last
// three, and whose hosts keep time; its sends and receives do not, as only one rank's are known. Errors: kExhausted:
// more ranks and pairs than may be looked at between two messages.
inline constexpr size_t kMaxLookedAt = 1u << 17;
Result<Jobs> find_jobs(const JobSources& sources, size_t limit = kMaxLookedAt);

}  // namespace orrery::daemon
