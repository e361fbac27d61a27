// The central scheduler that other schemes are compared with.
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/schemes/scheme.h"

namespace orrery::sim {
namespace {

struct Wanted {
  uint32_t src, dst;
  uint64_t bytes;
};

// The uplink of the leaf that each flow takes.
std::vector<fabric::LinkId> uplinks(const fabric::Graph& graph, const std::vector<Wanted>& flows, double threshold) {
  Traffic traffic;
  traffic.jobs.emplace_back();
  for (const auto& [src, dst, bytes] : flows)
    traffic.transfers.push_back({.flow = traffic.add_flow({.src = src, .dst = dst}), .bytes = bytes});
  traffic.rounds.emplace_back();
  const Routed routed = route(traffic, graph, Scheme::kFirstFit, {.threshold = threshold}).value();
  std::vector<fabric::LinkId> links;
  for (const FlowRoute& route : routed.flows) links.push_back(route.qps[0].paths[0][1]);
  return links;
}

}  // namespace

TEST_CASE("first fit gives flows of full rate a link each") {
  const auto links = uplinks(leaf_spine(2, 4, 8), {{0, 4, 1}, {1, 5, 1}, {2, 6, 1}, {3, 7, 1}}, 1);
  CHECK(std::set(links.begin(), links.end()).size() == 4);
}

TEST_CASE("first fit fills a path before it takes the next, the largest flows first") {
  // Every host sends two flows of half its rate.
  const std::vector<Wanted> flows = {{0, 2, 5}, {0, 3, 80}, {1, 2, 90}, {1, 3, 5}};
  const auto full = uplinks(leaf_spine(2, 2, 4), flows, 1);
  CHECK(full[1] == full[2]);
  CHECK(full[0] == full[3]);
  CHECK(full[0] != full[1]);
  const auto half = uplinks(leaf_spine(2, 2, 4), flows, 0.5);
  CHECK(half[1] != half[2]);
  CHECK(half[0] != half[3]);
}

}  // namespace orrery::sim
