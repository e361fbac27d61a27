#include "tools/planning/fabric/clos.h"

#include <catch2/catch.hpp>

#include "controller/fabric/graph.h"

namespace orrery::planning {
namespace {

using Catch::Matchers::Contains;

// `pods` pods of `leaves` leaves with `hosts` hosts each.
Clos three_tiers(uint32_t pods, uint32_t leaves, uint32_t hosts) {
  Clos clos{.name = "clos", .spines = 2, .cores = 2, .nic_bps = 100'000'000'000, .uplink_bps = 400'000'000'000};
  clos.core_bps = 800'000'000'000;
  for (uint32_t p = 0; p < pods; ++p) {
    clos.pods.push_back("pod" + std::to_string(p + 1) + "-");
    for (uint32_t l = 0; l < leaves; ++l) {
      clos.leaves.push_back({"leaf" + std::to_string(clos.leaves.size() + 1), p});
      for (uint32_t h = 0; h < hosts; ++h)
        clos.hosts.push_back(
            {"h" + std::to_string(clos.hosts.size() + 1), {static_cast<uint32_t>(clos.leaves.size() - 1)}});
    }
  }
  return clos;
}

}  // namespace

TEST_CASE("hosts of one pod meet in its spines, hosts of two pods in every core of a spine's plane") {
  const auto topology = topology_of(three_tiers(2, 2, 1));
  REQUIRE(topology);
  const fabric::Graph graph = fabric::Graph::build(*topology);
  const auto paths = [&](size_t a, size_t b) { return graph.paths(graph.nics()[a], graph.nics()[b]); };
  CHECK(paths(0, 1).size() == 2);
  CHECK(paths(0, 1)[0].size() == 4);
  // Two spines, each with the two cores of its plane, and from a core one way down.
  CHECK(paths(0, 2).size() == 4);
  CHECK(paths(0, 2)[0].size() == 6);
  for (const fabric::Path& path : paths(0, 2)) {
    const std::string up = graph.node(graph.link(path[1]).to).name, down = graph.node(graph.link(path[3]).to).name;
    CHECK(up.substr(0, 5) == "pod1-");
    CHECK(down == "pod2-" + up.substr(5));
    CHECK(graph.link(path[2]).rate_bps == 800'000'000'000);
  }
}

TEST_CASE("cables side by side are ports of their own") {
  Clos clos = three_tiers(1, 3, 2);
  clos.cores = 0;
  clos.cables_per_spine = 3;
  const auto topology = topology_of(clos);
  REQUIRE(topology);
  CHECK(topology->switches.size() == 5);
  CHECK(topology->links.size() == 6 + 3 * 2 * 3);
  CHECK(topology->switches[0].ports.size() == 2 + 6);
  CHECK(topology->switches[3].ports.size() == 9);
}

TEST_CASE("a host's NICs can be under leaves of their own, and queues grow with the rate of the port") {
  Clos clos = three_tiers(1, 2, 1);
  clos.cores = 0;
  clos.hosts = {{"a", {0, 1}}, {"b", {0, 1}}};
  const auto topology = topology_of(clos);
  REQUIRE(topology);
  CHECK(topology->hosts[1].nics.size() == 2);
  CHECK(topology->links[1] == fabric::Cable{{"a", "eth1"}, {"leaf2", "p1"}});
  CHECK(topology->switches[0].ports[0].queue_bytes == 16u << 20);
  CHECK(topology->switches[0].ports[2].queue_bytes == 64u << 20);
}

TEST_CASE("what the topology file cannot hold is refused before it is built") {
  Clos clos = three_tiers(2, 2, 1);
  clos.spines = 100'000;
  CHECK_THAT(topology_of(clos).error().message, Contains("at most 8192"));
  clos.spines = 2;
  clos.cables_per_spine = 600;
  CHECK_THAT(topology_of(clos).error().message, Contains("1200 ports upwards"));
  clos.cables_per_spine = 1;
  clos.hosts[0].name = "leaf1";
  CHECK_THAT(topology_of(clos).error().message, Contains("leaf1"));
}

TEST_CASE("the file of a topology is read back as it was") {
  const auto topology = topology_of(three_tiers(3, 4, 5));
  REQUIRE(topology);
  const auto text = topology_file(*topology);
  REQUIRE(text);
  const auto again = fabric::parse_topology(*text, "again");
  REQUIRE(again);
  CHECK(*again == *topology);
}

}  // namespace orrery::planning
