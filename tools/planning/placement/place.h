// Puts jobs on free NICs so that few bytes cross leaves, and fewer cores.
//
// What is minimised is the sum over all pairs of slots of bytes times the cables between switches that they cross: 0
// within a leaf, 2 by a spine, 4 by a core. Several ways to pack jobs into pods and leaves are tried, the largest job
// first; within a job heavy groups are kept together; then slots of all jobs and free NICs are exchanged as long as
// that helps. The same input gives the same answer, which is never worse than what was there before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/planning/placement/demand.h"
#include "tools/planning/placement/sites.h"
#include "tools/sim/workload/jobs.h"

namespace orrery::planning {

// NICs by job, in slot order.
using Assignment = std::vector<std::vector<uint32_t>>;

// Bytes of one iteration, both directions.
struct Volume {
  double host = 0;        // between NICs of one host
  double leaf = 0;        // between hosts of one leaf
  double cross_leaf = 0;  // by a spine
  double cross_core = 0;  // by a core
};

struct PlacedJob {
  std::string name;
  Volume before, after;
  // Of cross_leaf + cross_core: no placement on the NICs that are free goes below.
  double bound = 0;
};

struct Placed {
  Assignment before, after;
  std::vector<PlacedJob> jobs;
};

// Names as a file lists them, parted by blanks, commas or line ends, "#" to the end of a line left out; hosts, or
// HOST:NIC. Errors: kInvalidArgument, with the nearest name.
Result<std::vector<uint32_t>> nics_of_list(const fabric::Graph& graph, const std::string& text,
                                           const std::string& file);
Result<uint32_t> nic_of_name(const fabric::Graph& graph, const std::string& name);

// Where jobs run already: where they say, and those that do not say on the free NICs in the order of `kind`. Errors:
// kInvalidArgument for a host that is named twice or is not free, or a job that does not divide into units of
// `together`; kExhausted when there are too few.
Result<Assignment> assign_before(const fabric::Graph& graph, const std::vector<Demand>& demands,
                                 const std::vector<bool>& free, sim::Placement kind, uint64_t seed,
                                 uint32_t together = 1);

// `before` uses free NICs only, none twice. `together`: so many slots of a job after each other go on as many NICs
// after each other, those of one server (units.h).
Placed place(const Sites& sites, const std::vector<Demand>& demands, const std::vector<bool>& free,
             const Assignment& before, uint32_t together = 1);

Volume volume_of(const Sites& sites, const Demand& demand, const std::vector<uint32_t>& nics);
// Sum of bytes times cables over all jobs.
double cost_of(const Sites& sites, const std::vector<Demand>& demands, const Assignment& assignment);

// The steps of place(), for tests.
struct Packing {
  bool grouped = false;  // slots that exchange much under one leaf, else in their order
  bool roomy = false;    // the pod with most free NICs, else the smallest that a job fits into
};
Assignment pack(const Sites& sites, const std::vector<Demand>& demands, const std::vector<bool>& free, Packing packing);
void improve(const Sites& sites, const std::vector<Demand>& demands, const std::vector<bool>& free,
             Assignment& assignment);
double cross_leaf_bound(const Sites& sites, const Demand& demand, const std::vector<bool>& free);

}  // namespace orrery::planning
