// Traffic + routes -> the program that an engine runs.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/sim/model/program.h"
#include "tools/sim/model/traffic.h"

namespace orrery::sim {

struct QpRoute {
  std::vector<fabric::Path> paths;  // the one to begin with, then what the policy may also take; backups for kStatic
  PathPolicy policy = PathPolicy::kStatic;
};

// How a scheme sends a flow. Several queue pairs share the bytes of every transfer evenly.
struct FlowRoute {
  std::vector<QpRoute> qps;
  Time release_offset = 0;  // of the flow's first transfer in each collective
  uint64_t pace_bps = 0;    // of the whole flow; 0: the NIC's rate
};

// When the rounds of a job begin: at multiples of `period` after `phase`. Its first waits for that in any case, the
// others for at most `max_wait`.
struct JobPhase {
  Time period = 0;  // 0: as they come
  Time phase = 0;
  Time max_wait = 0;
};

struct LoweringOptions {
  // How wrong the clock of each host is when a release offset is kept, by host; empty: all are right. Only hosts that
  // wait for a time are late or early, and none starts before its data is there.
  std::vector<int64_t> clock_error_ps;
  std::vector<JobPhase> phases;  // by job; may be empty
  bool checked = false;          // check() of this traffic has found no fault
};

// Numbers of tasks stay: program step i is task i. Errors: kInvalidArgument names the flow that has no route, or the
// fault that check() found.
Result<Program> lower(const Traffic& traffic, const std::vector<FlowRoute>& routes, const fabric::Graph& graph,
                      const LoweringOptions& options = {});

}  // namespace orrery::sim
