#include "tools/sim/fluid/latency.h"

#include <algorithm>

namespace orrery::sim {
namespace {

uint32_t length(const PathLinks& path) {
  uint32_t count = 0;
  while (count < kMaxPathLinks && path.links[count] != kNone) ++count;
  return count;
}

}  // namespace

Latency::Latency(const fabric::Graph& graph, const FluidConfig& config) : config_(config) {
  for (const fabric::Link& link : graph.links())
    scale_.push_back(static_cast<uint64_t>((static_cast<__uint128_t>(8'000'000'000'000) << 16) / link.rate_bps));
}

Time Latency::fixed(const PathLinks& path) const {
  const uint32_t links = length(path);
  return links * config_.propagation + (links - 1) * config_.forwarding_delay;
}

// The last packet leaves when the longest chain of transmissions before it has ended: of full packets through the first
// links and, from some link on, of itself through the rest.
Time Latency::of_message(const PathLinks& path, uint64_t payload, uint64_t pace_bps) const {
  const uint32_t links = length(path);
  const uint64_t count = packets(payload);
  const uint64_t full = config_.payload_bytes + config_.header_bytes;
  const uint64_t last = payload - (count - 1) * config_.payload_bytes + config_.header_bytes;
  const auto paced =
      pace_bps != 0 ? static_cast<Time>(static_cast<double>(full) * 8e12 / static_cast<double>(pace_bps)) : Time{0};
  Time slowest = 0, first_way = 0, last_way = 0;
  for (uint32_t i = 0; i < links; ++i) {
    slowest = std::max(slowest, time_of(path.links[i], full));
    last_way += time_of(path.links[i], last);
  }
  slowest = std::max(slowest, paced);
  const Time in_rate =
      (count - 1) * slowest +
      static_cast<Time>(static_cast<double>(slowest) * static_cast<double>(last) / static_cast<double>(full) + 0.5);
  if (config_.cut_through) {
    Time heads = 0;
    for (uint32_t i = 0; i + 1 < links; ++i)
      heads += time_of(path.links[i], std::min<uint64_t>(count > 1 ? full : last, config_.header_bytes));
    return fixed(path) + heads;
  }
  Time end = last_way + (count - 1) * paced, gap = paced, rest = last_way;
  for (uint32_t i = 0; i < links && count > 1; ++i) {
    gap = std::max(gap, time_of(path.links[i], full));
    first_way += time_of(path.links[i], full);
    end = std::max(end, first_way + (count - 2) * gap + rest);
    rest -= time_of(path.links[i], last);
  }
  end += fixed(path);
  return end > in_rate ? end - in_rate : 0;
}

Time Latency::of_ack(const PathLinks& back) const {
  Time result = fixed(back);
  for (uint32_t i = 0; i < length(back); ++i) result += time_of(back.links[i], config_.control_bytes);
  return result;
}

}  // namespace orrery::sim
