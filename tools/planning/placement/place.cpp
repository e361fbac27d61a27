#include "tools/planning/placement/place.h"

#include "tools/planning/placement/units.h"

namespace orrery::planning {

Volume volume_of(const Sites& sites, const Demand& demand, const std::vector<uint32_t>& nics) {
  Volume volume;
  for (const Pair& pair : demand.pairs) {
    const uint32_t a = nics[pair.a], b = nics[pair.b];
    const uint32_t cables = sites.cables(sites.leaf_of(a), sites.leaf_of(b));
    double& bytes = sites.host_of(a) == sites.host_of(b) ? volume.host
                    : cables == 0                        ? volume.leaf
                    : cables <= 2                        ? volume.cross_leaf
                                                         : volume.cross_core;
    bytes += pair.bytes;
  }
  return volume;
}

double cost_of(const Sites& sites, const std::vector<Demand>& demands, const Assignment& assignment) {
  double cost = 0;
  for (size_t job = 0; job < demands.size(); ++job)
    for (const Pair& pair : demands[job].pairs) {
      const uint32_t a = assignment[job][pair.a], b = assignment[job][pair.b];
      if (sites.host_of(a) != sites.host_of(b)) cost += pair.bytes * sites.cables(sites.leaf_of(a), sites.leaf_of(b));
    }
  return cost;
}

Placed place(const Sites& sites, const std::vector<Demand>& demands, const std::vector<bool>& free,
             const Assignment& before, uint32_t together) {
  Placed placed{.before = before, .after = before, .jobs = {}};
  const Units units(sites, demands, free, together);
  std::vector<Assignment> candidates;
  if (const auto whole = units.of(before)) candidates.push_back(*whole);
  if (units.room())
    for (const bool roomy : {false, true})
      for (const bool grouped : {false, true})
        candidates.push_back(pack(units.sites, units.demands, units.free, {grouped, roomy}));
  double best = cost_of(sites, demands, before);
  for (Assignment& candidate : candidates) {
    improve(units.sites, units.demands, units.free, candidate);
    Assignment nics = units.expand(candidate);
    const double cost = cost_of(sites, demands, nics);
    // Who gains nothing stays where it is.
    if (cost >= best * (1 - 1e-12)) continue;
    best = cost;
    placed.after = std::move(nics);
  }
  for (size_t job = 0; job < demands.size(); ++job)
    placed.jobs.push_back({demands[job].name, volume_of(sites, demands[job], before[job]),
                           volume_of(sites, demands[job], placed.after[job]),
                           cross_leaf_bound(sites, demands[job], free)});
  return placed;
}

}  // namespace orrery::planning
