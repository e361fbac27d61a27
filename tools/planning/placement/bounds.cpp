// What no placement of a job goes below.
#include <algorithm>
#include <numeric>

#include "tools/planning/placement/place.h"

namespace orrery::planning {
namespace {

// Each slot shares its leaf with at most most - 1 others: the rest of what it exchanges crosses.
double bound_by_slots(const Demand& demand, uint32_t most) {
  std::vector<std::vector<double>> bytes(demand.slots);
  for (const Pair& pair : demand.pairs) {
    bytes[pair.a].push_back(pair.bytes);
    bytes[pair.b].push_back(pair.bytes);
  }
  double crossing = 0;
  for (auto& list : bytes) {
    if (list.size() < most) continue;
    std::sort(list.begin(), list.end(), std::greater<>());
    crossing += std::accumulate(list.begin() + (most - 1), list.end(), 0.0);
  }
  return crossing / 2;
}

class Components {
 public:
  explicit Components(uint32_t slots) : parent_(slots) { std::iota(parent_.begin(), parent_.end(), 0u); }
  uint32_t find(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(uint32_t a, uint32_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<uint32_t> parent_;
};

// Who hang together and need k leaves have at least k - 1 pairs that cross, and k when they form a ring.
double bound_by_parts(const Demand& demand, const std::vector<uint32_t>& rooms) {
  Components components(demand.slots);
  std::vector<uint32_t> degree(demand.slots);
  for (const Pair& pair : demand.pairs) {
    components.join(pair.a, pair.b);
    ++degree[pair.a];
    ++degree[pair.b];
  }
  struct Part {
    uint32_t slots = 0;
    bool ring = true;
    std::vector<double> bytes;
  };
  std::vector<Part> parts(demand.slots);
  for (uint32_t slot = 0; slot < demand.slots; ++slot) {
    Part& part = parts[components.find(slot)];
    ++part.slots;
    part.ring = part.ring && degree[slot] == 2;
  }
  for (const Pair& pair : demand.pairs) parts[components.find(pair.a)].bytes.push_back(pair.bytes);
  double crossing = 0;
  for (Part& part : parts) {
    uint32_t leaves = 0, room = 0;
    while (room < part.slots && leaves < rooms.size()) room += rooms[leaves++];
    if (leaves < 2) continue;
    const size_t cuts = std::min<size_t>(part.ring ? leaves : leaves - 1, part.bytes.size());
    std::sort(part.bytes.begin(), part.bytes.end());
    crossing += std::accumulate(part.bytes.begin(), part.bytes.begin() + static_cast<ptrdiff_t>(cuts), 0.0);
  }
  return crossing;
}

}  // namespace

double cross_leaf_bound(const Sites& sites, const Demand& demand, const std::vector<bool>& free) {
  std::vector<uint32_t> rooms(sites.leaves());
  for (uint32_t nic = 0; nic < sites.nics(); ++nic)
    if (free[nic]) ++rooms[sites.leaf_of(nic)];
  // NICs of one host under several leaves exchange without crossing: nothing is known then.
  for (uint32_t nic = 1; nic < sites.nics(); ++nic)
    if (sites.host_of(nic) == sites.host_of(nic - 1) && sites.leaf_of(nic) != sites.leaf_of(nic - 1)) return 0;
  std::sort(rooms.begin(), rooms.end(), std::greater<>());
  if (rooms.empty() || rooms[0] == 0) return 0;
  return std::max(bound_by_slots(demand, rooms[0]), bound_by_parts(demand, rooms));
}

}  // namespace orrery::planning
