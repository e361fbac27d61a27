// What one run came to, and what the runs of a scheme come to together.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/fabric/graph.h"
#include "tools/sim/model/result.h"
#include "tools/sim/model/traffic.h"
#include "tools/sim/schemes/scheme.h"

namespace orrery::sim {

// Links between switches: where paths differ.
std::vector<fabric::LinkId> core_links(const fabric::Graph& graph);

struct Run {
  Scheme scheme = Scheme::kEcmp;
  uint64_t seed = 1;
  // Of each iteration of each job that ended; of the whole run when the traffic has no rounds.
  std::vector<double> times_ms;
  std::vector<std::vector<double>> job_times_ms;  // the same by job
  uint64_t unfinished = 0;      // iterations that did not end, or messages never delivered when there are no rounds
  double iterations_per_s = 0;  // of a job: iterations of all jobs over jobs and the time to the last delivery
  Totals totals;
  Time end = 0;
  std::vector<uint64_t> link_bytes;  // by fabric::LinkId, headers included
  double max_utilisation = 0;        // of the busiest link, over the whole run
  double max_core_utilisation = 0;
  double core_spread = 0;  // busiest core link over their mean; 1: even; 0: no core link was used
  uint64_t max_queue_bytes = 0;
  Time planned_drain = 0, lower_bound = 0;  // Routed
  double cpu_s = 0;
};

Run summarise(const fabric::Graph& graph, const Traffic& traffic, const RunResult& result);

// All runs of one scheme together.
struct Summary {
  Scheme scheme = Scheme::kEcmp;
  size_t iterations = 0;
  uint64_t unfinished = 0;
  double mean_ms = 0, p50_ms = 0, p99_ms = 0, worst_ms = 0;
  double iterations_per_s = 0;
  double max_utilisation = 0;       // largest of all runs
  double max_core_utilisation = 0;  // largest of all runs
  double core_spread = 0;           // mean of the runs
  uint64_t max_queue_bytes = 0;
  Totals totals;        // sums
  double slowdown = 0;  // mean time over the ideal's; 0: there is none
  double plan_gap = 0;  // drain of the plan over its lower bound, less 1, the worst run; 0 without a plan
  bool planned = false;
};

// `ideal_ms`: 0 when there is none. Precondition: `runs` are of one scheme, at least one.
Summary summarise(const std::vector<const Run*>& runs, double ideal_ms);

// The smallest value that at least `share` of all reach or stay below (nearest rank); 0 of nothing.
double percentile(std::vector<double> values, double share);

}  // namespace orrery::sim
