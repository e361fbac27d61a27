#include "controller/planner/rounds.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "controller/planner/colouring.h"

namespace orrery::planner {
namespace {

using Rounds = std::vector<uint32_t>;

// NICs as dense numbers, and the most flows that one has.
struct Pattern {
  std::vector<Edge> edges;
  uint32_t senders = 0;
  uint32_t receivers = 0;
  uint32_t degree = 0;

  explicit Pattern(std::span<const ExchangeFlow> flows) {
    std::unordered_map<fabric::LinkId, uint32_t> up, down;
    std::vector<uint32_t> out, in;
    const auto number = [&](auto& ids, std::vector<uint32_t>& count, fabric::LinkId link) {
      const auto [entry, fresh] = ids.try_emplace(link, static_cast<uint32_t>(count.size()));
      if (fresh) count.push_back(0);
      degree = std::max(degree, ++count[entry->second]);
      return entry->second;
    };
    for (const ExchangeFlow& flow : flows) edges.push_back({number(up, out, flow.up), number(down, in, flow.down)});
    senders = static_cast<uint32_t>(out.size());
    receivers = static_cast<uint32_t>(in.size());
  }
};

// Each flow in the first round in which both its NICs are free. At most 2 * degree - 1 rounds.
Rounds first_fit(const Pattern& pattern) {
  const size_t width = 2 * size_t{pattern.degree};
  std::vector<bool> sends(pattern.senders * width), receives(pattern.receivers * width);
  Rounds rounds;
  rounds.reserve(pattern.edges.size());
  for (const Edge& edge : pattern.edges) {
    uint32_t round = 0;
    while (sends[edge.left * width + round] || receives[edge.right * width + round]) ++round;
    sends[edge.left * width + round] = receives[edge.right * width + round] = true;
    rounds.push_back(round);
  }
  return rounds;
}

std::vector<uint64_t> longest(std::span<const ExchangeFlow> flows, const Rounds& rounds) {
  std::vector<uint64_t> longest;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (rounds[i] >= longest.size()) longest.resize(rounds[i] + 1);
    longest[rounds[i]] = std::max(longest[rounds[i]], flows[i].bytes);
  }
  return longest;
}

uint64_t total(const std::vector<uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

}  // namespace

std::vector<uint32_t> rounds_of(std::span<const ExchangeFlow> flows) {
  if (flows.empty()) return {};
  const Pattern pattern(flows);
  Rounds rounds = colour_edges(pattern.edges, pattern.degree);
  std::vector<uint64_t> bytes = longest(flows, rounds);
  if (flows.front().bytes != flows.back().bytes) {
    Rounds by_size = first_fit(pattern);
    std::vector<uint64_t> by_size_bytes = longest(flows, by_size);
    if (total(by_size_bytes) < total(bytes)) rounds.swap(by_size), bytes.swap(by_size_bytes);
  }
  Rounds order(bytes.size()), place(bytes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return bytes[a] > bytes[b]; });
  for (uint32_t at = 0; at < order.size(); ++at) place[order[at]] = at;
  for (uint32_t& round : rounds) round = place[round];
  return rounds;
}

}  // namespace orrery::planner
