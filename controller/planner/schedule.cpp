#include "controller/planner/schedule.h"

#include <algorithm>

#include "controller/planner/problem.h"

namespace orrery::planner {
namespace {

struct Share {
  uint32_t flows = 0;
  uint64_t bytes = 0;
};

// Flows without bytes count as no load, so they share nothing.
std::vector<Share> shares(const fabric::Graph& fabric, std::span<const ScheduledFlow> flows) {
  std::vector<Share> shares(fabric.links().size());
  for (const ScheduledFlow& flow : flows) {
    if (flow.bytes == 0) continue;
    for (fabric::LinkId link : *flow.path) {
      ++shares[link].flows;
      shares[link].bytes += flow.bytes;
    }
  }
  return shares;
}

}  // namespace

void stagger(const fabric::Graph& fabric, std::span<ScheduledFlow> flows) {
  const std::vector<Share> share = shares(fabric, flows);
  std::vector<uint64_t> next_start_ns(share.size());
  for (ScheduledFlow& flow : flows) {
    if (flow.bytes == 0 || flow.path->empty()) continue;
    const auto shared = std::span(*flow.path).subspan(1);
    for (fabric::LinkId link : shared)
      if (share[link].flows > 1) flow.release_offset_ns = std::max(flow.release_offset_ns, next_start_ns[link]);
    for (fabric::LinkId link : shared)
      next_start_ns[link] = flow.release_offset_ns +
                            drain_ns(fabric.link(link).queue_bytes, fabric.link(link).rate_bps) / share[link].flows;
  }
}

void pace(const fabric::Graph& fabric, std::span<ScheduledFlow> flows) {
  const std::vector<Share> share = shares(fabric, flows);
  for (ScheduledFlow& flow : flows) {
    if (flow.bytes == 0) continue;
    for (fabric::LinkId link : *flow.path) {
      if (share[link].flows < 2) continue;
      const auto part = static_cast<unsigned __int128>(fabric.link(link).rate_bps) * flow.bytes / share[link].bytes;
      const uint64_t pace = std::max<uint64_t>(1, static_cast<uint64_t>(part));
      flow.pace_bps = flow.pace_bps == 0 ? pace : std::min(flow.pace_bps, pace);
    }
  }
}

}  // namespace orrery::planner
