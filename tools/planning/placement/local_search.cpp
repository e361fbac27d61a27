// Exchanges of two slots, or of a slot and a free NIC, as long as they save cables.
#include <algorithm>

#include "tools/planning/placement/place.h"

namespace orrery::planning {
namespace {

constexpr size_t kMaxCells = 32u << 20;  // of costs by slot and leaf: 256 MiB
constexpr uint64_t kMaxTrials = 400'000'000;

class Search {
 public:
  Search(const Sites& sites, const std::vector<Demand>& demands, const std::vector<bool>& free, Assignment& assignment)
      : sites_(sites), assignment_(assignment), spare_(sites.leaves()) {
    std::vector<bool> used(free.size(), false);
    for (size_t job = 0; job < demands.size(); ++job) {
      const auto first = static_cast<uint32_t>(nic_of_.size());
      for (const uint32_t nic : assignment[job]) {
        nic_of_.push_back(nic);
        used[nic] = true;
      }
      neighbours_.resize(nic_of_.size());
      for (const Pair& pair : demands[job].pairs) {
        neighbours_[first + pair.a].push_back({first + pair.b, pair.bytes});
        neighbours_[first + pair.b].push_back({first + pair.a, pair.bytes});
      }
    }
    for (auto& list : neighbours_) std::sort(list.begin(), list.end());
    for (uint32_t nic = sites.nics(); nic-- > 0;)
      if (free[nic] && !used[nic]) spare_[sites.leaf_of(nic)].push_back(nic);
  }

  void run() {
    const uint64_t slots = nic_of_.size();
    if (slots * sites_.leaves() > kMaxCells) return;
    fill_costs();
    for (bool better = true; better && trials_ < kMaxTrials;) {
      better = false;
      for (uint32_t slot = 0; slot < slots && trials_ < kMaxTrials; ++slot) better = improve(slot) || better;
    }
    store();
  }

 private:
  uint32_t leaf(uint32_t slot) const { return sites_.leaf_of(nic_of_[slot]); }
  double& cost(uint32_t slot, uint32_t at) { return costs_[size_t{slot} * sites_.leaves() + at]; }

  // cost(slot, leaf): of all that the slot exchanges, if it were there and everyone else where they are.
  void fill_costs() {
    costs_.assign(nic_of_.size() * sites_.leaves(), 0.0);
    for (uint32_t slot = 0; slot < nic_of_.size(); ++slot)
      for (const auto& [other, bytes] : neighbours_[slot])
        for (uint32_t at = 0; at < sites_.leaves(); ++at) cost(slot, at) += bytes * sites_.cables(at, leaf(other));
  }

  double between(uint32_t a, uint32_t b) const {
    const auto& list = neighbours_[a];
    const auto found = std::lower_bound(list.begin(), list.end(), std::pair(b, 0.0));
    return found != list.end() && found->first == b ? found->second : 0;
  }

  bool improve(uint32_t slot) {
    const uint32_t here = leaf(slot);
    const double now = cost(slot, here);
    if (now <= 0) return false;
    double best = now * 1e-9;  // more than rounding
    uint32_t partner = sim::kNone, target = sim::kNone;
    for (uint32_t at = 0; at < sites_.leaves(); ++at)
      if (at != here && !spare_[at].empty() && now - cost(slot, at) > best) {
        best = now - cost(slot, at);
        target = at;
      }
    trials_ += nic_of_.size() + sites_.leaves();
    for (uint32_t other = 0; other < nic_of_.size(); ++other) {
      const uint32_t there = leaf(other);
      if (there == here) continue;
      double gain = now + cost(other, there) - cost(slot, there) - cost(other, here);
      if (gain <= best) continue;
      // Two that exchange with each other stay as far apart as they were.
      gain -= 2 * between(slot, other) * sites_.cables(here, there);
      if (gain <= best) continue;
      best = gain;
      partner = other;
    }
    if (partner != sim::kNone) {
      const uint32_t there = leaf(partner);
      std::swap(nic_of_[slot], nic_of_[partner]);
      moved(slot, here, there);
      moved(partner, there, here);
      return true;
    }
    if (target == sim::kNone) return false;
    const uint32_t nic = spare_[target].back();
    spare_[target].pop_back();
    spare_[here].push_back(nic_of_[slot]);
    nic_of_[slot] = nic;
    moved(slot, here, target);
    return true;
  }

  void moved(uint32_t slot, uint32_t from, uint32_t to) {
    for (const auto& [other, bytes] : neighbours_[slot])
      for (uint32_t at = 0; at < sites_.leaves(); ++at)
        cost(other, at) +=
            bytes * (static_cast<double>(sites_.cables(at, to)) - static_cast<double>(sites_.cables(at, from)));
  }

  void store() {
    size_t slot = 0;
    for (auto& nics : assignment_)
      for (uint32_t& nic : nics) nic = nic_of_[slot++];
  }

  const Sites& sites_;
  Assignment& assignment_;
  std::vector<uint32_t> nic_of_;                                      // by slot, all jobs
  std::vector<std::vector<std::pair<uint32_t, double>>> neighbours_;  // by slot, sorted
  std::vector<std::vector<uint32_t>> spare_;                          // free NICs by leaf
  std::vector<double> costs_;
  uint64_t trials_ = 0;
};

}  // namespace

void improve(const Sites& sites, const std::vector<Demand>& demands, const std::vector<bool>& free,
             Assignment& assignment) {
  Search(sites, demands, free, assignment).run();
}

}  // namespace orrery::planning
