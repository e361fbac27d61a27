#include "controller/planner/homes.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace orrery::planner {
namespace {

using fabric::LinkId;

// Communicators with flows in more than one phase.
std::unordered_set<uint64_t> with_phases(const std::vector<ResolvedFlow>& flows) {
  std::unordered_map<uint64_t, uint32_t> first;
  std::unordered_set<uint64_t> several;
  for (const ResolvedFlow& flow : flows)
    if (first.try_emplace(flow.demand->comm_id, flow.demand->phase).first->second != flow.demand->phase)
      several.insert(flow.demand->comm_id);
  return several;
}

// Links that the way down of `core` has in common with that of `home`, from the last on.
size_t common(const Core& core, const Core& home) {
  const size_t most = std::min(core.size(), home.size()) / 2;
  size_t count = 0;
  while (count < most && core[core.size() - 1 - count] == home[home.size() - 1 - count]) ++count;
  return count;
}

// How many have their home on each link.
class Tenants {
 public:
  explicit Tenants(const fabric::Graph& fabric) : fabric_(fabric), falling_(fabric.links().size()) {}

  // Before the destinations of each leaf.
  void begin_leaf() { rising_.assign(falling_.size(), 0); }

  // The core whose links have the fewest, beside their rates: the last link counts first. What this leaf's have on
  // their way up only tells parallel links apart.
  uint32_t settle(const std::vector<Core>& cores) {
    uint32_t best = 0;
    for (uint32_t core = 1; core < cores.size(); ++core)
      if (emptier(cores[core], cores[best])) best = core;
    for (size_t hop = 0; hop < cores[best].size(); ++hop) ++tenants(cores[best], hop);
    return best;
  }

 private:
  uint32_t& tenants(const Core& core, size_t hop) { return (hop < core.size() / 2 ? rising_ : falling_)[core[hop]]; }
  double share(const Core& core, size_t hop) {
    return (tenants(core, hop) + 1) / static_cast<double>(fabric_.link(core[hop]).rate_bps);
  }
  bool emptier(const Core& core, const Core& than) {
    for (size_t hop = std::min(core.size(), than.size()); hop-- > 0;)
      if (const double a = share(core, hop), b = share(than, hop); a != b) return a < b;
    return false;
  }

  const fabric::Graph& fabric_;
  std::vector<uint32_t> rising_, falling_;  // by LinkId
};

}  // namespace

Homes::Homes(const fabric::Graph& fabric, const std::vector<ResolvedFlow>& flows) {
  const std::unordered_set<uint64_t> several = with_phases(flows);
  std::vector<const fabric::Nic*> nics;
  std::unordered_map<LinkId, const fabric::Nic*> farthest;  // source by link down
  for (const ResolvedFlow& flow : flows) {
    if (!flow.movable() || flow.cores->size() < 2) continue;
    if (!flow.demand->exchange && !several.contains(flow.demand->comm_id)) continue;
    const auto [entry, fresh] = destinations_.try_emplace(flow.down);
    if (fresh) nics.push_back(flow.dst);
    Destination& destination = entry->second;
    destination.subflows = std::max(destination.subflows, flow.demand->subflows);
    const fabric::Nic*& source = farthest[flow.down];
    const size_t length = flow.cores->front().size(), before = fresh ? 0 : destination.cores->front().size();
    if (length < before || (length == before && flow.src > source)) continue;
    destination.cores = flow.cores;
    source = flow.src;
  }
  const auto leaf = [&](const fabric::Nic* nic) { return fabric.link(nic->uplink).to; };
  std::sort(nics.begin(), nics.end(),
            [&](const auto* a, const auto* b) { return std::pair(leaf(a), a) < std::pair(leaf(b), b); });
  Tenants tenants(fabric);
  for (size_t at = 0; at < nics.size(); ++at) {
    const fabric::Nic* nic = nics[at];
    if (at == 0 || leaf(nic) != leaf(nics[at - 1])) tenants.begin_leaf();
    Destination& destination = destinations_.at(fabric.link(nic->uplink).reverse);
    for (uint32_t subflow = 0; subflow < destination.subflows; ++subflow)
      destination.home.push_back(tenants.settle(*destination.cores));
  }
}

uint32_t Homes::of(const ResolvedFlow& flow, uint32_t subflow) const {
  const auto found = destinations_.find(flow.down);
  if (found == destinations_.end() || subflow >= found->second.home.size()) return kNoChoice;
  const std::vector<Core>& cores = *flow.cores;
  const uint32_t index = found->second.home[subflow];
  const Core& home = (*found->second.cores)[index];
  // On an even fabric cores come in the same order from everywhere.
  if (index < cores.size() && common(cores[index], home) == home.size() / 2) return index;
  uint32_t best = kNoChoice;
  size_t most = 0;
  for (uint32_t core = 0; core < cores.size(); ++core)
    if (const size_t count = common(cores[core], home); count > most) most = count, best = core;
  return best;
}

}  // namespace orrery::planner
