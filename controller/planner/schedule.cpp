#include "controller/planner/schedule.h"

#include <algorithm>
#include <numeric>

#include "controller/planner/problem.h"

namespace orrery::planner {
namespace {

// Of the time that the busiest link needs for a collective: what waiting for the others' starts may cost at most.
constexpr uint64_t kMaxStaggerShare = 100;
// Beyond so many flows on a link, starts are only added at the end: looking for gaps would take too long.
constexpr size_t kMaxGapsTried = 256;

struct Share {
  uint32_t flows = 0;
  uint32_t subflows = 0;
  uint64_t bytes = 0;
  uint32_t collectives = 1;

  uint64_t collective_bytes() const { return bytes / collectives; }
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
        shares[link].collectives = std::max(shares[link].collectives, flow.collectives);
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

// A link on which a flow meets others, behind the sender's own, and how far apart they start there.
struct Shared {
  fabric::LinkId link;
  uint64_t step_ns;
};

void find_shared(const fabric::Graph& fabric, const ScheduledFlow& flow, const std::vector<Share>& share,
                 std::vector<Shared>& shared) {
  shared.clear();
  for (const fabric::Path* path : flow.paths)
    for (size_t hop = 1; hop < path->size(); ++hop) {
      const fabric::LinkId link = (*path)[hop];
      if (share[link].flows < 2) continue;
      const uint64_t burst = std::min(fabric.link(link).queue_bytes, share[link].collective_bytes() / kMaxStaggerShare);
      shared.push_back({link, drain_ns(burst, fabric.link(link).rate_bps) / share[link].flows});
    }
  std::sort(shared.begin(), shared.end(), [](const Shared& a, const Shared& b) { return a.link < b.link; });
  shared.erase(
      std::unique(shared.begin(), shared.end(), [](const Shared& a, const Shared& b) { return a.link == b.link; }),
      shared.end());
}

// Links that flows have in common, directly or through other links, with what each such group waits.
class Groups {
 public:
  explicit Groups(size_t links) : above_(links), latest_(links), allowed_(links) {
    std::iota(above_.begin(), above_.end(), 0u);
  }

  fabric::LinkId of(fabric::LinkId link) {
    while (above_[link] != link) link = above_[link] = above_[above_[link]];
    return link;
  }
  // `from` and `to` are in one group.
  void join(fabric::LinkId from, fabric::LinkId to) {
    from = of(from), to = of(to);
    above_[from] = to;
    latest_[to] = std::max(latest_[to], latest_[from]);
    allowed_[to] = std::max(allowed_[to], allowed_[from]);
  }
  void add(fabric::LinkId link, uint64_t start_ns, uint64_t allowed_ns) {
    link = of(link);
    latest_[link] = std::max(latest_[link], start_ns);
    allowed_[link] = std::max(allowed_[link], allowed_ns);
  }
  // `start_ns`, earlier in proportion where the group's last start is later than it may be.
  uint64_t within(fabric::LinkId link, uint64_t start_ns) {
    link = of(link);
    if (latest_[link] <= allowed_[link]) return start_ns;
    return static_cast<uint64_t>(static_cast<unsigned __int128>(start_ns) * allowed_[link] / latest_[link]);
  }

 private:
  std::vector<fabric::LinkId> above_;
  std::vector<uint64_t> latest_, allowed_;  // of the group whose link is its own `above_`
};

}  // namespace

void stagger(const fabric::Graph& fabric, std::span<ScheduledFlow> flows, uint64_t min_step_ns, uint64_t max_step_ns) {
  const std::vector<Share> share = shares(fabric, flows);
  std::vector<Starts> starts(share.size());
  std::vector<Shared> shared;
  std::vector<fabric::LinkId> group_link(flows.size(), fabric::kNone);
  Groups groups(share.size());
  for (size_t index = 0; index < flows.size(); ++index) {
    ScheduledFlow& flow = flows[index];
    if (flow.bytes == 0) continue;
    find_shared(fabric, flow, share, shared);
    if (shared.empty()) continue;
    for (Shared& each : shared) each.step_ns = std::max(min_step_ns, std::min(each.step_ns, max_step_ns));
    uint64_t& at = flow.release_offset_ns;
    for (uint64_t before = UINT64_MAX; before != at;) {
      before = at;
      for (const auto& [link, step_ns] : shared) at = starts[link].earliest(at, step_ns);
    }
    group_link[index] = shared.front().link;
    for (const auto& [link, step_ns] : shared) {
      starts[link].add(at);
      groups.join(link, shared.front().link);
      groups.add(link, at, drain_ns(share[link].collective_bytes(), fabric.link(link).rate_bps) / kMaxStaggerShare);
    }
  }
  for (size_t index = 0; index < flows.size(); ++index)
    if (group_link[index] != fabric::kNone)
      flows[index].release_offset_ns = groups.within(group_link[index], flows[index].release_offset_ns);
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
