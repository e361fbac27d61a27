// A central scheduler in the manner of Hedera's global first fit (Al-Fares et al., NSDI 2010): each flow, the largest
// first, takes the first path on which its demand fits beside those placed before; where it fits nowhere, the path
// whose fullest link is least full.
#include <algorithm>
#include <numeric>
#include <random>

#include "tools/sim/schemes/schemes.h"

namespace orrery::sim {
namespace {

// What a flow would take if only NICs limited it: an even share of the fuller of its two.
std::vector<double> demands(const Traffic& traffic, const fabric::Graph& graph) {
  std::vector<uint32_t> out(graph.nics().size()), in(graph.nics().size());
  for (const Flow& flow : traffic.flows) ++out[flow.src], ++in[flow.dst];
  std::vector<double> rates;
  for (const Flow& flow : traffic.flows) {
    const auto nic = static_cast<double>(graph.link(graph.nics()[flow.src].uplink).rate_bps);
    rates.push_back(nic / std::max(out[flow.src], in[flow.dst]));
  }
  return rates;
}

}  // namespace

Result<Routed> route_first_fit(const Traffic& traffic, const fabric::Graph& graph, const SchemeOptions& options) {
  const std::vector<double> rates = demands(traffic, graph);
  const std::vector<uint64_t> bytes = bytes_per_round(traffic);
  std::vector<uint32_t> order(traffic.flows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937_64 random(options.seed);
  std::shuffle(order.begin(), order.end(), random);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return bytes[a] > bytes[b]; });
  std::vector<double> used(graph.links().size());
  Routed routed;
  routed.flows.resize(traffic.flows.size());
  for (const uint32_t i : order) {
    const auto paths =
        graph.paths(graph.nics()[traffic.flows[i].src], graph.nics()[traffic.flows[i].dst], options.path_limit);
    if (paths.empty()) return no_path(traffic, graph, i);
    const fabric::Path* best = nullptr;
    double best_fill = 0;
    for (const fabric::Path& path : paths) {
      double fill = 0;
      for (const fabric::LinkId link : path)
        fill = std::max(fill, (used[link] + rates[i]) / static_cast<double>(graph.link(link).rate_bps));
      if (best == nullptr || fill < best_fill) best = &path, best_fill = fill;
      if (fill <= options.threshold + 1e-9) break;
    }
    for (const fabric::LinkId link : *best) used[link] += rates[i];
    routed.flows[i].qps = {{{*best}, PathPolicy::kStatic}};
    // Should that one fail, the scheduler would move the flow: to any other.
    if (paths.size() > 1)
      routed.flows[i].qps[0].paths.push_back(
          paths[(static_cast<size_t>(best - paths.data()) + 1 + random() % (paths.size() - 1)) % paths.size()]);
  }
  return routed;
}

}  // namespace orrery::sim
