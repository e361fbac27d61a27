#include "controller/planner/backups.h"

#include <algorithm>
#include <tuple>

namespace orrery::planner {
namespace {

class BackupChooser {
 public:
  BackupChooser(const fabric::Graph& fabric, std::span<const uint64_t> bytes)
      : fabric_(fabric), bytes_(bytes.begin(), bytes.end()) {}

  std::vector<uint32_t> choose(const FlowWithChoice& flow, uint32_t wanted) {
    const std::vector<Core>& cores = *flow.flow->cores;
    const uint32_t primary = flow.choice;
    std::vector<uint32_t> taken{primary}, backups;
    while (backups.size() < wanted && taken.size() < cores.size()) {
      uint32_t best = kNoChoice;
      Cost best_cost;
      for (uint32_t step = 1; step < cores.size(); ++step) {
        const uint32_t choice = (primary + step) % static_cast<uint32_t>(cores.size());
        if (std::find(taken.begin(), taken.end(), choice) != taken.end()) continue;
        const Cost cost = cost_of(flow, choice, taken);
        if (best == kNoChoice || cost < best_cost) {
          best = choice;
          best_cost = cost;
        }
      }
      taken.push_back(best);
      backups.push_back(best);
    }
    if (!backups.empty())
      for (fabric::LinkId link : cores[backups.front()]) bytes_[link] += flow.bytes;
    return backups;
  }

 private:
  using Cost = std::tuple<size_t, uint64_t, uint64_t>;  // links shared, worst drain time, sum of drain times

  Cost cost_of(const FlowWithChoice& flow, uint32_t choice, const std::vector<uint32_t>& taken) const {
    size_t shared = 0;
    uint64_t worst = 0, sum = 0;
    for (fabric::LinkId link : (*flow.flow->cores)[choice]) {
      for (uint32_t other : taken)
        shared += std::count((*flow.flow->cores)[other].begin(), (*flow.flow->cores)[other].end(), link);
      const uint64_t drain = drain_ns(bytes_[link] + flow.bytes, fabric_.link(link).rate_bps);
      worst = std::max(worst, drain);
      sum += drain;
    }
    return {shared, worst, sum};
  }

  const fabric::Graph& fabric_;
  std::vector<uint64_t> bytes_;
};

}  // namespace

std::vector<std::vector<uint32_t>> choose_backups(const fabric::Graph& fabric, std::span<const FlowWithChoice> flows,
                                                  std::span<const uint64_t> bytes, uint32_t wanted) {
  BackupChooser chooser(fabric, bytes);
  std::vector<std::vector<uint32_t>> backups;
  backups.reserve(flows.size());
  for (const FlowWithChoice& flow : flows) {
    const bool may = flow.flow->movable() && flow.choice != kNoChoice;
    backups.push_back(may ? chooser.choose(flow, wanted) : std::vector<uint32_t>{});
  }
  return backups;
}

}  // namespace orrery::planner
