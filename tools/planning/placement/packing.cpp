// A first placement: which NICs a job takes, and which slot goes under which leaf.
#include <algorithm>
#include <numeric>

#include "tools/planning/placement/place.h"

namespace orrery::planning {
namespace {

// Some of `sizes` (with an index each) that together hold `wanted`: the smallest that holds all (`roomy`: the largest),
// else the largest and so on.
std::vector<uint32_t> fitting(std::vector<std::pair<uint32_t, uint32_t>> sizes, uint32_t wanted, bool roomy) {
  std::stable_sort(sizes.begin(), sizes.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
  std::vector<uint32_t> taken;
  while (wanted > 0 && !sizes.empty()) {
    size_t at = 0;
    while (!roomy && at + 1 < sizes.size() && sizes[at + 1].first >= wanted) ++at;
    if (sizes[at].first == 0) break;
    taken.push_back(sizes[at].second);
    wanted -= std::min(wanted, sizes[at].first);
    sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(at));
  }
  return taken;
}

class Packer {
 public:
  Packer(const Sites& sites, const std::vector<bool>& free) : sites_(sites), free_(sites.leaves()) {
    for (uint32_t nic = 0; nic < sites.nics(); ++nic)
      if (free[nic]) free_[sites.leaf_of(nic)].push_back(nic);
    // NICs of a host next to each other.
    for (auto& nics : free_)
      std::stable_sort(nics.begin(), nics.end(),
                       [&](uint32_t x, uint32_t y) { return sites.host_of(x) < sites.host_of(y); });
  }

  // Leaf by leaf, as few as can be.
  std::vector<std::vector<uint32_t>> take(uint32_t wanted, bool roomy) {
    std::vector<std::vector<uint32_t>> blocks;
    std::vector<std::pair<uint32_t, uint32_t>> pods;
    for (uint32_t pod = 0; pod < sites_.pods(); ++pod) pods.push_back({0, pod});
    for (uint32_t leaf = 0; leaf < sites_.leaves(); ++leaf) pods[sites_.pod_of(leaf)].first += room(leaf);
    const auto sizes = pods;
    for (const uint32_t pod : fitting(pods, wanted, roomy)) {
      const uint32_t here = std::min(wanted, sizes[pod].first);
      take_in_pod(pod, here, blocks);
      wanted -= here;
    }
    return blocks;
  }

 private:
  uint32_t room(uint32_t leaf) const { return static_cast<uint32_t>(free_[leaf].size()); }

  void take_in_pod(uint32_t pod, uint32_t wanted, std::vector<std::vector<uint32_t>>& blocks) {
    std::vector<std::pair<uint32_t, uint32_t>> leaves;
    for (uint32_t leaf = 0; leaf < sites_.leaves(); ++leaf)
      if (sites_.pod_of(leaf) == pod) leaves.push_back({room(leaf), leaf});
    for (const uint32_t leaf : fitting(std::move(leaves), wanted, false)) {
      auto& nics = free_[leaf];
      const auto here = static_cast<ptrdiff_t>(std::min<size_t>(wanted, nics.size()));
      blocks.emplace_back(nics.begin(), nics.begin() + here);
      nics.erase(nics.begin(), nics.begin() + here);
      wanted -= static_cast<uint32_t>(here);
    }
  }

  const Sites& sites_;
  std::vector<std::vector<uint32_t>> free_;  // by leaf
};

// Slots in the order in which they go into the blocks: each block grows by the slot that it exchanges most with.
class Grower {
 public:
  explicit Grower(const Demand& demand)
      : neighbours_(demand.slots), to_block_(demand.slots), to_all_(demand.slots), placed_(demand.slots, false) {
    for (const Pair& pair : demand.pairs) {
      neighbours_[pair.a].push_back({pair.b, pair.bytes});
      neighbours_[pair.b].push_back({pair.a, pair.bytes});
    }
  }

  std::vector<uint32_t> grow(const std::vector<std::vector<uint32_t>>& blocks) {
    std::vector<uint32_t> order;
    for (const auto& block : blocks) {
      std::fill(to_block_.begin(), to_block_.end(), 0.0);
      for (size_t i = 0; i < block.size(); ++i) order.push_back(add(best()));
    }
    return order;
  }

 private:
  uint32_t best() const {
    uint32_t best = 0;
    while (placed_[best]) ++best;
    for (uint32_t slot = best + 1; slot < placed_.size(); ++slot)
      if (!placed_[slot] && std::pair(to_block_[slot], to_all_[slot]) > std::pair(to_block_[best], to_all_[best]))
        best = slot;
    return best;
  }

  uint32_t add(uint32_t slot) {
    placed_[slot] = true;
    for (const auto& [other, bytes] : neighbours_[slot]) {
      to_block_[other] += bytes;
      to_all_[other] += bytes;
    }
    return slot;
  }

  std::vector<std::vector<std::pair<uint32_t, double>>> neighbours_;
  std::vector<double> to_block_, to_all_;  // bytes to slots of this block, to all that are placed
  std::vector<bool> placed_;
};

}  // namespace

Assignment pack(const Sites& sites, const std::vector<Demand>& demands, const std::vector<bool>& free,
                Packing packing) {
  std::vector<size_t> jobs(demands.size());
  std::iota(jobs.begin(), jobs.end(), size_t{0});
  std::stable_sort(jobs.begin(), jobs.end(), [&](size_t x, size_t y) { return demands[x].slots > demands[y].slots; });
  Packer packer(sites, free);
  Assignment assignment(demands.size());
  for (const size_t job : jobs) {
    const auto blocks = packer.take(demands[job].slots, packing.roomy);
    std::vector<uint32_t> nics;
    for (const auto& block : blocks) nics.insert(nics.end(), block.begin(), block.end());
    if (!packing.grouped) {
      assignment[job] = std::move(nics);
      continue;
    }
    const std::vector<uint32_t> order = Grower(demands[job]).grow(blocks);
    assignment[job].resize(nics.size());
    for (size_t i = 0; i < nics.size(); ++i) assignment[job][order[i]] = nics[i];
  }
  return assignment;
}

}  // namespace orrery::planning
