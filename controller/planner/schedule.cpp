#include "controller/planner/schedule.h"

#include <algorithm>

#include "controller/planner/problem.h"

namespace orrery::planner {
namespace {

// Of a link's drain time: what waiting for the others' starts may cost at most.
constexpr uint64_t kMaxStaggerShare = 100;
// Beyond so many flows on a link, starts are only added at the end: looking for gaps would take too long.
constexpr size_t kMaxGapsTried = 256;

struct Share {
  uint32_t flows = 0;
  uint32_t subflows = 0;
  uint64_t bytes = 0;
};

// Flows without bytes count as no load, so they share nothing.
std::vector<Share> shares(const fabric::Graph& fabric, std::span<const ScheduledFlow> flows) {
  std::vector<Share> shares(fabric.links().size());
  std::vector<const ScheduledFlow*> last(shares.size());
  for (const ScheduledFlow& flow : flows) {
    if (flow.bytes == 0) continue;
    for (const fabric::Path* path : flow.paths)
      for (fabric::LinkId link : *path) {
        shares[link].flows += last[link] != &flow;
        last[link] = &flow;
        ++shares[link].subflows;
        shares[link].bytes += flow.bytes;
      }
  }
  return shares;
}

// When flows start on a link.
class Starts {
 public:
  // The earliest time from `at` on that is `step` away from every start.
  uint64_t earliest(uint64_t at, uint64_t step) const {
    if (times_.size() > kMaxGapsTried) return std::max(at, times_.back() + step);
    auto next = std::upper_bound(times_.begin(), times_.end(), at >= step ? at - step : 0);
    if (at < step) next = times_.begin();
    for (; next != times_.end() && *next < at + step; ++next) at = *next + step;
    return at;
  }
  void add(uint64_t time) { times_.insert(std::upper_bound(times_.begin(), times_.end(), time), time); }

 private:
  std::vector<uint64_t> times_;  // ascending
};

struct Shared {
  fabric::LinkId link;
  uint64_t step_ns;
};

}  // namespace

void stagger(const fabric::Graph& fabric, std::span<ScheduledFlow> flows) {
  const std::vector<Share> share = shares(fabric, flows);
  std::vector<Starts> starts(share.size());
  std::vector<Shared> shared;
  for (ScheduledFlow& flow : flows) {
    if (flow.bytes == 0) continue;
    shared.clear();
    for (const fabric::Path* path : flow.paths)
      for (size_t hop = 1; hop < path->size(); ++hop) {
        const fabric::LinkId link = (*path)[hop];
        if (share[link].flows < 2) continue;
        const uint64_t burst = std::min(fabric.link(link).queue_bytes, share[link].bytes / kMaxStaggerShare);
        shared.push_back({link, drain_ns(burst, fabric.link(link).rate_bps) / share[link].flows});
      }
    std::sort(shared.begin(), shared.end(), [](const Shared& a, const Shared& b) { return a.link < b.link; });
    shared.erase(
        std::unique(shared.begin(), shared.end(), [](const Shared& a, const Shared& b) { return a.link == b.link; }),
        shared.end());
    uint64_t& at = flow.release_offset_ns;
    for (uint64_t before = UINT64_MAX; before != at;) {
      before = at;
      for (const auto& [link, step_ns] : shared) at = starts[link].earliest(at, step_ns);
    }
    for (const auto& [link, unused] : shared) starts[link].add(at);
  }
}

void pace(const fabric::Graph& fabric, std::span<ScheduledFlow> flows, std::span<const uint64_t> background) {
  std::vector<Share> share = shares(fabric, flows);
  for (fabric::LinkId link = 0; link < background.size(); ++link) {
    share[link].subflows += background[link] > 0;
    share[link].bytes += background[link];
  }
  for (ScheduledFlow& flow : flows) {
    if (flow.bytes == 0) continue;
    const uint64_t subflows = flow.paths.size();
    uint64_t line_bps = 0;
    for (const fabric::Path* path : flow.paths)
      for (fabric::LinkId link : *path) {
        line_bps = std::max(line_bps, fabric.link(path->front()).rate_bps);
        if (share[link].subflows < 2) continue;
        const auto part = static_cast<unsigned __int128>(fabric.link(link).rate_bps) * flow.bytes / share[link].bytes;
        const uint64_t pace = std::max<uint64_t>(1, static_cast<uint64_t>(part)) * subflows;
        flow.pace_bps = flow.pace_bps == 0 ? pace : std::min(flow.pace_bps, pace);
      }
    // Only among themselves: that is no reason to slow down.
    if (subflows > 1 && flow.pace_bps + subflows >= line_bps) flow.pace_bps = 0;
  }
}

}  // namespace orrery::planner
