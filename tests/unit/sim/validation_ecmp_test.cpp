// The switches' real hash of random source ports against balls in bins: it must collide as often as chance, not more.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "controller/fabric/topology.h"
#include "tests/unit/sim/fixtures.h"
#include "tests/unit/sim/statistics.h"
#include "tools/sim/schemes/scheme.h"

namespace orrery::sim {
namespace {

constexpr int kDraws = 4'000;

// Probability that no bin of `bins` holds more than `most` of `balls` (exponential generating function of one bin).
double no_bin_exceeds(int balls, int bins, int most) {
  std::vector<double> product(balls + 1);
  product[0] = 1;
  for (int bin = 0; bin < bins; ++bin) {
    std::vector<double> next(balls + 1);
    for (int i = 0; i <= balls; ++i)
      for (int j = 0; j <= std::min(most, balls - i); ++j) next[i + j] += product[i] / std::tgamma(j + 1);
    product.swap(next);
  }
  return product[balls] * std::tgamma(balls + 1) / std::pow(bins, balls);
}

std::vector<uint32_t> hosts_of_leaf(const fabric::Graph& graph, uint32_t leaf, uint32_t leaves) {
  const auto hosts = static_cast<uint32_t>(graph.nics().size());
  std::vector<uint32_t> result;
  for (uint32_t host = leaf * hosts / leaves; host < (leaf + 1) * hosts / leaves; ++host) result.push_back(host);
  return result;
}

// How often the busiest link carried so many flows, over draws of all source ports; `position`: of that link in a path.
std::vector<double> max_loads(const fabric::Graph& graph, const std::vector<std::pair<uint32_t, uint32_t>>& pairs,
                              size_t position) {
  Traffic traffic;
  traffic.jobs.emplace_back();
  for (const auto& [src, dst] : pairs) traffic.add_flow({.src = src, .dst = dst});
  std::vector<double> counts(pairs.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto routed = route(traffic, graph, Scheme::kEcmp, {.seed = static_cast<uint64_t>(draw) + 1});
    std::vector<int> load(graph.links().size());
    for (const FlowRoute& flow : routed.value().flows) ++load[flow.qps[0].paths[0][position]];
    ++counts[*std::max_element(load.begin(), load.end()) - 1];
  }
  return counts;
}

void check_against_balls_in_bins(const std::vector<double>& counts, int balls, int bins) {
  std::vector<double> expected;
  double counted_mean = 0, expected_mean = 0;
  for (int most = 1; most <= balls; ++most) {
    const double share = no_bin_exceeds(balls, bins, most) - no_bin_exceeds(balls, bins, most - 1);
    expected.push_back(kDraws * share);
    expected_mean += most * share;
    counted_mean += most * counts[most - 1] / kDraws;
  }
  const ChiSquare distance = chi_square(expected, counts);
  CHECK(distance.statistic < distance.limit);
  CHECK(counted_mean == Approx(expected_mean).epsilon(0.02));
}

}  // namespace

TEST_CASE("the closed form of the busiest link is that of known tables") {
  CHECK(no_bin_exceeds(4, 4, 1) == Approx(0.09375));
  CHECK(no_bin_exceeds(8, 8, 2) - no_bin_exceeds(8, 8, 1) == Approx(0.4984).margin(5e-5));
  CHECK(no_bin_exceeds(16, 8, 4) - no_bin_exceeds(16, 8, 3) == Approx(0.4796).margin(5e-5));
}

TEST_CASE("flows that leave a leaf collide on its uplinks as balls in bins do") {
  const auto [flows, spines] = GENERATE(table<uint32_t, uint32_t>({{4, 4}, {8, 8}, {16, 16}, {16, 8}}));
  const auto graph = leaf_spine(2, spines, 2 * flows);
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t i = 0; i < flows; ++i) pairs.push_back({hosts_of_leaf(graph, 0, 2)[i], hosts_of_leaf(graph, 1, 2)[i]});
  INFO(flows << " flows, " << spines << " uplinks");
  check_against_balls_in_bins(max_loads(graph, pairs, 1), static_cast<int>(flows), static_cast<int>(spines));
}

// A permutation is hashed twice: where flows of several leaves meet on the way down to one, luck is drawn again.
TEST_CASE("flows from several leaves collide on the way down to one as balls in bins do") {
  const uint32_t flows = GENERATE(4u, 8u);
  const auto graph = leaf_spine(flows + 1, flows, flows * (flows + 1));
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t i = 0; i < flows; ++i)
    pairs.push_back({hosts_of_leaf(graph, i + 1, flows + 1)[0], hosts_of_leaf(graph, 0, flows + 1)[i]});
  INFO(flows << " flows");
  check_against_balls_in_bins(max_loads(graph, pairs, 2), static_cast<int>(flows), static_cast<int>(flows));
}

TEST_CASE("what a spine's hash chooses does not depend on what the leaf's chose") {
  // Two leaves, two spines, two cables between each: four ways up, then two ways down.
  fabric::Topology topology = fabric::generate_leaf_spine({.leaves = 2, .spines = 2, .hosts = 2}).value();
  for (const char* leaf : {"leaf1", "leaf2"})
    for (const char* spine : {"spine1", "spine2"}) {
      const auto add_port = [&](const std::string& name) {
        const auto found = std::find_if(topology.switches.begin(), topology.switches.end(),
                                        [&](const fabric::SwitchSpec& s) { return s.name == name; });
        found->ports.push_back(found->ports.back());
        found->ports.back().name = "second" + std::to_string(found->ports.size());
        return fabric::PortRef{name, found->ports.back().name};
      };
      const fabric::PortRef upper = add_port(leaf), lower = add_port(spine);
      topology.links.push_back({upper, lower});
    }
  REQUIRE(fabric::validate(topology).has_value());
  const auto graph = fabric::Graph::build(topology);
  std::vector<double> counts(8);
  std::vector<fabric::LinkId> ups, downs;
  Traffic traffic;
  traffic.jobs.emplace_back();
  traffic.add_flow({.src = 0, .dst = 1});
  const auto rank = [](std::vector<fabric::LinkId>& seen, fabric::LinkId link) {
    const auto found = std::find(seen.begin(), seen.end(), link) - seen.begin();
    if (found == static_cast<std::ptrdiff_t>(seen.size())) seen.push_back(link);
    return static_cast<size_t>(found);
  };
  std::map<fabric::LinkId, std::vector<fabric::LinkId>> downs_after;
  for (int draw = 1; draw <= kDraws; ++draw) {
    const auto routed = route(traffic, graph, Scheme::kEcmp, {.seed = static_cast<uint64_t>(draw)});
    const fabric::Path path = routed.value().flows[0].qps[0].paths[0];
    ++counts[2 * rank(ups, path[1]) + rank(downs_after[path[1]], path[2])];
  }
  const ChiSquare distance = chi_square(std::vector<double>(8, kDraws / 8.0), counts);
  CHECK(distance.statistic < distance.limit);
}

}  // namespace orrery::sim
