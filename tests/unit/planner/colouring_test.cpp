#include "controller/planner/colouring.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "tests/unit/planner/fixtures.h"

using namespace orrery::planner;
using orrery::planner::testing::Random;

namespace {

using Count = std::map<uint32_t, std::vector<uint32_t>>;  // edges of each colour at each vertex

Count count(const std::vector<Edge>& edges, uint32_t Edge::*vertex, const std::vector<uint32_t>& colour_of,
            uint32_t colours) {
  Count count;
  for (size_t edge = 0; edge < edges.size(); ++edge) {
    auto& at = count[edges[edge].*vertex];
    at.resize(colours);
    ++at[colour_of[edge]];
  }
  return count;
}

uint32_t sum(const std::vector<uint32_t>& values) {
  uint32_t total = 0;
  for (uint32_t value : values) total += value;
  return total;
}

bool fits(const std::vector<Edge>& edges, const std::vector<uint32_t>& colour_of, uint32_t colours, bool equitable) {
  for (auto vertex : {&Edge::left, &Edge::right})
    for (const auto& [unused, at] : count(edges, vertex, colour_of, colours)) {
      const uint32_t degree = sum(at);
      if (*std::max_element(at.begin(), at.end()) > (degree + colours - 1) / colours) return false;
      if (equitable && *std::min_element(at.begin(), at.end()) < degree / colours) return false;
    }
  return true;
}

std::vector<Edge> random_edges(Random& random, uint32_t vertices, uint32_t edges) {
  std::vector<Edge> graph;
  for (uint32_t edge = 0; edge < edges; ++edge) graph.push_back({random.below(vertices), random.below(vertices)});
  return graph;
}

}  // namespace

TEST_CASE("every random multigraph is coloured equitably with any number of colours") {
  Random random(1);
  for (int round = 0; round < 400; ++round) {
    const auto edges = random_edges(random, 1 + random.below(9), 1 + random.below(80));
    const uint32_t colours = 1 + random.below(9);
    const auto colour_of = colour_edges(edges, colours, random.below(20));
    REQUIRE(colour_of.size() == edges.size());
    for (uint32_t colour : colour_of) REQUIRE(colour < colours);
    REQUIRE(fits(edges, colour_of, colours, true));
  }
}

TEST_CASE("a regular multigraph uses every colour equally at every vertex") {
  Random random(2);
  std::vector<Edge> edges;
  for (int round = 0; round < 12; ++round) {
    const auto to = random.permutation(8);
    for (uint32_t from = 0; from < 8; ++from) edges.push_back({from, to[from]});
  }
  const auto colour_of = colour_edges(edges, 4);
  for (auto vertex : {&Edge::left, &Edge::right})
    for (const auto& [unused, at] : count(edges, vertex, colour_of, 4)) CHECK(at == std::vector<uint32_t>{3, 3, 3, 3});
}

TEST_CASE("colours that are already optimal are all kept") {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    auto edges = random_edges(random, 6, 40);
    const auto first = colour_edges(edges, 5);
    for (size_t edge = 0; edge < edges.size(); ++edge) edges[edge].preferred = first[edge];
    REQUIRE(colour_edges(edges, 5, 3) == first);
  }
}

TEST_CASE("preferred colours never cost the optimum") {
  Random random(4);
  for (int round = 0; round < 400; ++round) {
    auto edges = random_edges(random, 1 + random.below(6), 1 + random.below(50));
    const uint32_t colours = 1 + random.below(6);
    for (Edge& edge : edges)
      if (random.below(3) > 0) edge.preferred = random.below(colours + 2);
    REQUIRE(fits(edges, colour_edges(edges, colours), colours, false));
  }
}

TEST_CASE("most colours stay when a few edges come and go") {
  Random random(5);
  uint32_t kept = 0, all = 0;
  for (int round = 0; round < 50; ++round) {
    auto edges = random_edges(random, 8, 64);
    const auto first = colour_edges(edges, 8);
    for (size_t edge = 0; edge < edges.size(); ++edge) edges[edge].preferred = first[edge];
    for (int change = 0; change < 3; ++change) edges[random.below(64)] = {random.below(8), random.below(8)};
    const auto second = colour_edges(edges, 8);
    for (size_t edge = 0; edge < edges.size(); ++edge) {
      if (edges[edge].preferred == kNoChoice) continue;
      ++all;
      kept += second[edge] == edges[edge].preferred;
    }
  }
  CHECK(kept > all * 9 / 10);
}
