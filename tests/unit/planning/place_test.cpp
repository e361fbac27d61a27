#include "tools/planning/placement/place.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "tools/planning/fabric/clos.h"
#include "tools/planning/fabric/host_list.h"
#include "tools/planning/placement/placed_files.h"

namespace orrery::planning {
namespace {

using Catch::Matchers::Contains;

fabric::Graph two_tiers(uint32_t leaves, uint32_t hosts) {
  const auto topology = fabric::generate_leaf_spine({.leaves = leaves, .spines = 2, .hosts = hosts});
  REQUIRE(topology);
  return fabric::Graph::build(*topology);
}

// 6 leaves of 1 to 4 hosts in three pods.
fabric::Graph three_tiers() {
  const auto clos = load_host_list(std::string(ORRERY_FIXTURES) + "/hosts/three-pods.csv", {});
  REQUIRE(clos);
  const auto topology = topology_of(*clos);
  REQUIRE(topology);
  return fabric::Graph::build(*topology);
}

std::vector<bool> all_free(const fabric::Graph& graph) {
  return std::vector<bool>(graph.nics().size(), true);
}

std::vector<Demand> demands_of_text(const std::string& jobs) {
  const auto scenario = sim::parse_scenario("topology: {file: x.yaml}\nschemes: [ecmp]\njobs:\n" + jobs, "s.yaml");
  INFO((scenario ? "" : scenario.error().message));
  REQUIRE(scenario);
  const auto demands = demands_of(*scenario);
  REQUIRE(demands);
  return *demands;
}

Demand ring(uint32_t slots, double bytes) {
  Demand demand{.name = "ring", .slots = slots, .pairs = {}, .host_names = {}};
  for (uint32_t i = 0; i < slots; ++i)
    demand.pairs.push_back({std::min(i, (i + 1) % slots), std::max(i, (i + 1) % slots), bytes});
  return demand;
}

Demand all_to_all(uint32_t slots, double bytes) {
  Demand demand{.name = "all-to-all", .slots = slots, .pairs = {}, .host_names = {}};
  for (uint32_t a = 0; a < slots; ++a)
    for (uint32_t b = a + 1; b < slots; ++b) demand.pairs.push_back({a, b, bytes});
  return demand;
}

double total(const Volume& v) {
  return v.host + v.leaf + v.cross_leaf + v.cross_core;
}

double crossing(const Volume& v) {
  return v.cross_leaf + v.cross_core;
}

Placed place_all(const fabric::Graph& graph, const std::vector<Demand>& demands, sim::Placement kind,
                 uint64_t seed = 1) {
  const auto before = assign_before(graph, demands, all_free(graph), kind, seed);
  REQUIRE(before);
  return place(Sites(graph), demands, all_free(graph), *before);
}

}  // namespace

TEST_CASE("cables between leaves are counted by the switches above them") {
  const fabric::Graph graph = three_tiers();
  const Sites sites(graph);
  CHECK(sites.leaves() == 6);
  CHECK(sites.pods() == 3);
  std::set<uint32_t> distances;
  for (uint32_t a = 0; a < 6; ++a)
    for (uint32_t b = 0; b < 6; ++b) {
      distances.insert(sites.cables(a, b));
      CHECK((sites.cables(a, b) <= 2) == (sites.pod_of(a) == sites.pod_of(b)));
    }
  CHECK(distances == std::set<uint32_t>{0, 2, 4});
}

TEST_CASE("demands are what the simulator's collectives send") {
  const auto demands = demands_of_text(
      "  - {name: a, hosts: 4, iterations: 7, setup: [{op: all_reduce, bytes: 999}], steps: [{op: all_reduce, bytes: "
      "4000}, {op: all_to_all, bytes: 400}]}\n"
      "  - {name: b, hosts: [h1, h2], ranks_per_host: 2, steps: [{op: all_gather, bytes: 400, group: {size: 2, stride: "
      "2}}]}\n");
  REQUIRE(demands.size() == 2);
  // A ring of 4 sends 2 * 3/4 of the array along each edge; an all-to-all a quarter of 400 each way.
  const std::vector<double> expected{6000 + 200, 200, 6000 + 200, 6000 + 200, 200, 6000 + 200};
  REQUIRE(demands[0].pairs.size() == 6);
  for (size_t i = 0; i < 6; ++i) CHECK(demands[0].pairs[i].bytes == expected[i]);
  CHECK(demands[1].slots == 2);
  CHECK(demands[1].host_names.size() == 2);
  CHECK(demands[1].pairs[0].bytes == 2 * 400);  // two groups, each half of 400 both ways
}

TEST_CASE("a ring over all of a fabric crosses each leaf's border twice, which is the bound") {
  const fabric::Graph graph = two_tiers(4, 32);
  const std::vector<Demand> demands{ring(32, 100)};
  const Placed placed = place_all(graph, demands, sim::Placement::kFragmented);
  CHECK(crossing(placed.jobs[0].before) == 3200);
  CHECK(crossing(placed.jobs[0].after) == 400);
  CHECK(placed.jobs[0].bound == 400);
}

TEST_CASE("a job that fits under one leaf is put there") {
  const fabric::Graph graph = two_tiers(4, 32);
  const std::vector<Demand> demands{all_to_all(8, 10), ring(8, 10)};
  const Placed placed = place_all(graph, demands, sim::Placement::kFragmented);
  for (const PlacedJob& job : placed.jobs) CHECK(crossing(job.after) == 0);
}

TEST_CASE("an all-to-all over full leaves meets its bound") {
  const fabric::Graph graph = two_tiers(4, 32);
  const std::vector<Demand> demands{all_to_all(16, 10)};
  const Placed placed = place_all(graph, demands, sim::Placement::kFragmented);
  CHECK(crossing(placed.jobs[0].after) == 640);  // 8 x 8 pairs
  CHECK(placed.jobs[0].bound == 640);
}

TEST_CASE("heavy groups stay within leaves whatever the order of their ranks") {
  const fabric::Graph graph = two_tiers(8, 32);
  // Groups of 4 ranks, 8 apart.
  const auto demands = demands_of_text(
      "  - {name: a, hosts: 32, steps: [{op: all_reduce, bytes: 1000000, group: {size: 4, stride: 8}}, {op: "
      "all_reduce, bytes: 1000, group: {size: 8, stride: 1}}]}\n");
  const Placed placed = place_all(graph, demands, sim::Placement::kContiguous);
  CHECK(placed.jobs[0].before.cross_leaf > 40e6);
  CHECK(placed.jobs[0].after.cross_leaf < 100e3);
}

TEST_CASE("a pod is filled before cores are crossed") {
  const fabric::Graph graph = three_tiers();
  const std::vector<Demand> demands{ring(10, 100)};
  const Placed placed = place_all(graph, demands, sim::Placement::kFragmented);
  CHECK(placed.jobs[0].before.cross_core > 0);
  CHECK(placed.jobs[0].after.cross_core == 0);  // the first pod has eleven hosts
  CHECK(placed.jobs[0].after.cross_leaf == 300);
}

TEST_CASE("occupied hosts are left alone, and who gains nothing stays where it is") {
  const fabric::Graph graph = two_tiers(2, 8);
  std::vector<bool> free = all_free(graph);
  const auto occupied = nics_of_list(graph, "h1, h2 # busy\n\nh3\n", "busy.txt");
  REQUIRE(occupied);
  for (const uint32_t nic : *occupied) free[nic] = false;
  std::vector<Demand> demands{ring(4, 10)};
  const auto before = assign_before(graph, demands, free, sim::Placement::kFragmented, 1);
  REQUIRE(before);
  const Placed placed = place(Sites(graph), demands, free, *before);
  for (const uint32_t nic : placed.after[0]) CHECK(nic >= 4);
  demands[0].host_names = {"h8", "h5", "h7", "h6"};
  const auto named = assign_before(graph, demands, free, sim::Placement::kFragmented, 1);
  REQUIRE(named);
  CHECK(place(Sites(graph), demands, free, *named).after == *named);
}

TEST_CASE("what cannot be placed is told") {
  const fabric::Graph graph = two_tiers(2, 8);
  std::vector<Demand> demands{ring(4, 10), ring(5, 10)};
  const auto error = [&] {
    return assign_before(graph, demands, all_free(graph), sim::Placement::kContiguous, 1).error().message;
  };
  CHECK_THAT(error(), Contains("needs 5 hosts and 4 are left of the 8 that are free"));
  demands[1].host_names = {"h1", "h9"};
  CHECK_THAT(error(), Contains("no host 'h9', did you mean"));
  demands[0].host_names = {"h1", "h2"};
  CHECK_THAT(error(), Contains("h1 is not free, or two jobs name it"));
  CHECK_THAT(nics_of_list(graph, "h1\nx2\n", "free.txt").error().message,
             Contains("free.txt:2: the fabric has no host"));
}

TEST_CASE("whatever the jobs, the result is sound, no worse than before, above its bound, and always the same") {
  std::mt19937 random(5);
  const std::vector<fabric::Graph> graphs{two_tiers(4, 32), two_tiers(8, 16), three_tiers()};
  for (int i = 0; i < 150; ++i) {
    const fabric::Graph& graph = graphs[random() % graphs.size()];
    const auto nics = static_cast<uint32_t>(graph.nics().size());
    std::vector<bool> free(nics);
    for (uint32_t nic = 0; nic < nics; ++nic) free[nic] = random() % 5 != 0;
    auto left = static_cast<uint32_t>(std::count(free.begin(), free.end(), true));
    std::vector<Demand> demands;
    while (left >= 2 && demands.size() < 4) {
      const uint32_t slots = 2 + random() % (left - 1);
      left -= slots;
      Demand demand = random() % 2 == 0 ? ring(slots, 1 + random() % 1000) : all_to_all(slots, 1 + random() % 100);
      if (slots == 2) demand.pairs.resize(1);
      for (Pair& pair : demand.pairs)
        if (random() % 3 == 0) pair.bytes *= 1 + random() % 10;
      demands.push_back(demand);
    }
    if (demands.empty()) continue;
    const auto before = assign_before(graph, demands, free, sim::Placement::kRandom, random());
    REQUIRE(before);
    const Sites sites(graph);
    const Placed placed = place(sites, demands, free, *before);
    CHECK(cost_of(sites, demands, placed.after) <= cost_of(sites, demands, *before) * (1 + 1e-12));
    std::set<uint32_t> used;
    for (size_t job = 0; job < demands.size(); ++job) {
      CHECK(placed.after[job].size() == demands[job].slots);
      for (const uint32_t nic : placed.after[job]) {
        CHECK(free[nic]);
        CHECK(used.insert(nic).second);
      }
      CHECK(total(placed.jobs[job].after) == Approx(total(placed.jobs[job].before)));
      CHECK(crossing(placed.jobs[job].after) >= placed.jobs[job].bound * (1 - 1e-9));
      CHECK(crossing(placed.jobs[job].before) >= placed.jobs[job].bound * (1 - 1e-9));
    }
    CHECK(place(sites, demands, free, *before).after == placed.after);
  }
}

TEST_CASE("the NICs of a server stay together, whatever would be better without") {
  const fabric::Graph graph = two_tiers(4, 32);
  // Groups of 8 ranks, 4 apart: one rank of each server of 4.
  const auto demands = demands_of_text(
      "  - {name: a, hosts: 32, steps: [{op: all_reduce, bytes: 1000000, group: {size: 4, stride: 4}}]}\n");
  const auto before = assign_before(graph, demands, all_free(graph), sim::Placement::kRandom, 3, 4);
  REQUIRE(before);
  const Placed placed = place(Sites(graph), demands, all_free(graph), *before, 4);
  for (const Assignment& assignment : {placed.before, placed.after})
    for (size_t i = 0; i < 32; ++i) CHECK(assignment[0][i] == assignment[0][i / 4 * 4] + i % 4);
  CHECK(placed.jobs[0].after.cross_leaf < placed.jobs[0].before.cross_leaf);
  // Four servers in a group, two under each leaf: each of the groups' rings crosses twice.
  CHECK(placed.jobs[0].after.cross_leaf == Approx(8 * 2 * 1.5e6));
  CHECK_THAT(assign_before(graph, {ring(6, 1)}, all_free(graph), sim::Placement::kRandom, 3, 4).error().message,
             Contains("6 hosts do not divide into servers of 4"));
  // A torn start is told as it is, and mended where that is better.
  const auto torn = assign_before(graph, demands, all_free(graph), sim::Placement::kRandom, 3);
  REQUIRE(torn);
  CHECK(crossing(place(Sites(graph), demands, all_free(graph), *torn, 4).jobs[0].after) == Approx(24e6));
}

TEST_CASE("a thousand ranks are placed in a moment") {
  const fabric::Graph graph = two_tiers(32, 1024);
  const std::vector<Demand> demands{ring(700, 10), ring(200, 20), all_to_all(100, 1)};
  const Placed placed = place_all(graph, demands, sim::Placement::kRandom);
  // 700 under 32-host leaves take 22; 200 take 7.
  CHECK(crossing(placed.jobs[0].after) <= 1.1 * 220);
  CHECK(crossing(placed.jobs[1].after) <= 1.3 * 140);
}

TEST_CASE("a scenario gets its hosts in place, and keeps all else") {
  const fabric::Graph graph = two_tiers(2, 8);
  const std::string text =
      "# mine\ntopology: {leaf_spine: {leaves: 2, spines: 2, hosts: 8}}\nschemes: [ecmp]  # hosts: none\njobs:\n"
      "  - name: a\n    hosts: 2  # two\n    steps: [{op: all_reduce, bytes: 10}]\n"
      "  - {hosts: [h5,\n h6], ranks_per_host: 2, steps: [{op: all_reduce, bytes: 10}]}\n";
  const auto out = with_hosts(text, "s.yaml", graph, {{6, 7}, {0, 1}});
  REQUIRE(out);
  CHECK_THAT(*out, Contains("# mine\n") && Contains("hosts: 8}}") && Contains("hosts: [\"h7\", \"h8\"]  # two\n") &&
                       Contains("{hosts: [\"h1\", \"h2\"], ranks_per_host: 2"));
  const auto again = sim::parse_scenario(*out, "s.yaml");
  REQUIRE(again);
  CHECK(again->jobs[1].host_names == std::vector<std::string>{"h1", "h2"});
  CHECK_THAT(with_hosts("jobs:\n  - hosts:\n      - h1\n", "s.yaml", graph, {{0}}).error().message,
             Contains("s.yaml:2: jobs[0].hosts cannot be replaced"));
}

TEST_CASE("rank files say where every rank is") {
  const fabric::Graph graph = two_tiers(2, 8);
  CHECK(rank_file(graph, {3, 0}, 2) == "rank 0=h4 slot=0\nrank 1=h4 slot=1\nrank 2=h1 slot=0\nrank 3=h1 slot=1\n");
  CHECK(host_file(graph, {3, 0}, 2) == "h4 slots=2\nh1 slots=2\n");
}

}  // namespace orrery::planning
