#include "controller/fabric/graph.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "common/abi/ecmp_hash_abi.h"
#include "controller/fabric/topology.h"

namespace orrery::fabric {
namespace {

Graph leaf_spine(uint32_t leaves = 4, uint32_t spines = 4, uint32_t hosts = 16) {
  LeafSpine shape;
  shape.leaves = leaves;
  shape.spines = spines;
  shape.hosts = hosts;
  return Graph::build(generate_leaf_spine(shape).value());
}

const Nic& nic_of(const Graph& graph, std::string_view host) {
  for (const Nic& nic : graph.nics())
    if (graph.node(nic.host).name == host) return nic;
  FAIL("no host " << host);
  return graph.nics()[0];
}

FiveTuple tcp(const Nic& src, const Nic& dst, uint16_t src_port) {
  return {src.address, dst.address, src_port, 5000, IPPROTO_TCP};
}

// A k-ary fat tree (three tiers, k ports per switch, k^3/4 hosts).
Topology fat_tree(uint32_t k) {
  Topology topology;
  topology.name = fmt::format("fat-tree-{}", k);
  const uint32_t half = k / 2;
  const auto add_switch = [&](std::string name, uint32_t tier) {
    SwitchSpec spec;
    spec.name = std::move(name);
    spec.tier = tier;
    spec.hash_seed = static_cast<uint32_t>(topology.switches.size()) * 2654435761u + 1;
    for (uint32_t p = 1; p <= k; ++p) spec.ports.push_back({fmt::format("p{}", p), 400'000'000'000, 1'048'576, {}});
    topology.switches.push_back(std::move(spec));
  };
  const auto cable = [&](std::string a, uint32_t pa, std::string b, uint32_t pb) {
    topology.links.push_back({{std::move(a), fmt::format("p{}", pa)}, {std::move(b), fmt::format("p{}", pb)}});
  };
  for (uint32_t c = 0; c < half * half; ++c) add_switch(fmt::format("core{}", c), 3);
  for (uint32_t pod = 0; pod < k; ++pod) {
    for (uint32_t i = 0; i < half; ++i) add_switch(fmt::format("agg{}-{}", pod, i), 2);
    for (uint32_t i = 0; i < half; ++i) add_switch(fmt::format("edge{}-{}", pod, i), 1);
    for (uint32_t i = 0; i < half; ++i) {
      for (uint32_t j = 0; j < half; ++j) {
        cable(fmt::format("edge{}-{}", pod, i), half + 1 + j, fmt::format("agg{}-{}", pod, j), i + 1);
        cable(fmt::format("agg{}-{}", pod, i), half + 1 + j, fmt::format("core{}", i * half + j), pod + 1);
        const std::string host = fmt::format("h{}-{}-{}", pod, i, j);
        topology.hosts.push_back({host,
                                  {{"eth0", 400'000'000'000, 1'048'576,
                                    IpAddress::from_v4((10u << 24) | (pod << 16) | (i << 8) | (j + 1))}}});
        topology.links.push_back({{host, "eth0"}, {fmt::format("edge{}-{}", pod, i), fmt::format("p{}", j + 1)}});
      }
    }
  }
  return topology;
}

// All simple paths of minimal length, found by exhaustive search over the links: knows nothing of groups.
std::set<Path> brute_force_paths(const Graph& graph, const Nic& src, const Nic& dst, bool only_usable) {
  std::set<Path> best;
  std::vector<Path> frontier{{src.uplink}};
  while (!frontier.empty() && best.empty()) {
    std::vector<Path> longer;
    for (const Path& path : frontier) {
      const Link& last = graph.link(path.back());
      if (last.to == dst.host && path.back() == graph.link(dst.uplink).reverse) {
        best.insert(path);
        continue;
      }
      if (graph.node(last.to).kind == NodeKind::kHost || path.size() > 8) continue;
      for (LinkId id : graph.node(last.to).egress) {
        Path next = path;
        next.push_back(id);
        longer.push_back(std::move(next));
      }
    }
    frontier = std::move(longer);
  }
  if (only_usable)
    std::erase_if(best, [&](const Path& path) {
      return std::any_of(path.begin(), path.end(), [&](LinkId id) { return !graph.link(id).usable(); });
    });
  return best;
}

}  // namespace

TEST_CASE("the graph has both directions of every cable, each the reverse of the other") {
  const Graph graph = leaf_spine();
  CHECK(graph.nodes().size() == 4 + 4 + 16);
  CHECK(graph.links().size() == 2 * (16 + 16));
  for (LinkId id = 0; id < graph.links().size(); ++id) {
    const Link& link = graph.link(id);
    const Link& back = graph.link(link.reverse);
    CHECK(back.reverse == id);
    CHECK(back.from == link.to);
    CHECK(back.to == link.from);
    CHECK(back.port == link.peer_port);
    CHECK(graph.find_link(graph.link_name(id)) == id);
    CHECK(link.rate_bps == 100'000'000);
    CHECK(link.queue_bytes == 131'072);
  }
}

TEST_CASE("nodes, links and NICs are found by name and address, unknown ones are not") {
  const Graph graph = leaf_spine();
  REQUIRE(graph.find_node("leaf2"));
  CHECK(graph.node(*graph.find_node("leaf2")).tier == 1);
  CHECK(graph.node(*graph.find_node("h7")).kind == NodeKind::kHost);
  CHECK_FALSE(graph.find_node("leaf9"));
  CHECK_FALSE(graph.find_link("leaf1:p99"));
  const Nic* nic = graph.find_nic(IpAddress::from_v4(0x0a000203));
  REQUIRE(nic != nullptr);
  CHECK(graph.node(nic->host).name == "h7");
  CHECK(graph.link_name(nic->uplink) == "h7:eth0");
  CHECK(graph.find_nic(IpAddress::from_v4(1)) == nullptr);
}

TEST_CASE("a leaf reaches hosts of other leaves through every spine in port order, and its own through one port") {
  const Graph graph = leaf_spine();
  const auto up = graph.next_hops(*graph.find_node("leaf1"), nic_of(graph, "h5"));
  REQUIRE(up.size() == 4);
  for (size_t i = 0; i < up.size(); ++i) CHECK(graph.link_name(up[i]) == fmt::format("leaf1:p{}", 5 + i));
  const auto down = graph.next_hops(*graph.find_node("leaf1"), nic_of(graph, "h2"));
  REQUIRE(down.size() == 1);
  CHECK(graph.link_name(down[0]) == "leaf1:p2");
  CHECK(graph.next_hops(*graph.find_node("spine3"), nic_of(graph, "h5")).size() == 1);
  CHECK(graph.next_hops(*graph.find_node("h1"), nic_of(graph, "h5")).empty());
}

TEST_CASE("paths between two hosts equal an exhaustive search, with and without failed links") {
  std::mt19937 random(7);
  Graph graph = GENERATE(leaf_spine(2, 2, 4), leaf_spine(4, 4, 16), leaf_spine(3, 5, 6), Graph::build(fat_tree(4)));
  for (int round = 0; round < 20; ++round) {
    const Nic& src = graph.nics()[random() % graph.nics().size()];
    const Nic& dst = graph.nics()[random() % graph.nics().size()];
    if (&src == &dst) continue;
    const auto found = graph.paths(src, dst);
    CHECK(std::set<Path>(found.begin(), found.end()) == brute_force_paths(graph, src, dst, true));
    CHECK(std::set<Path>(found.begin(), found.end()).size() == found.size());
    const LinkId victim = static_cast<LinkId>(random() % graph.links().size());
    if (round % 2 == 0)
      graph.set_link_up(victim, false);
    else
      graph.set_link_drained(victim, true);
  }
}

TEST_CASE("paths stop at the limit, in a fixed order") {
  const Graph graph = leaf_spine();
  const auto all = graph.paths(nic_of(graph, "h1"), nic_of(graph, "h16"));
  const auto two = graph.paths(nic_of(graph, "h1"), nic_of(graph, "h16"), 2);
  REQUIRE(all.size() == 4);
  REQUIRE(two.size() == 2);
  CHECK(two[0] == all[0]);
  CHECK(two[1] == all[1]);
  CHECK(graph.path_names(all[0]) == std::vector<std::string>{"h1:eth0", "leaf1:p5", "spine1:p4", "leaf4:p4"});
}

TEST_CASE("a NIC has no path to itself") {
  const Graph graph = leaf_spine();
  CHECK(graph.paths(nic_of(graph, "h1"), nic_of(graph, "h1")).empty());
  CHECK_FALSE(graph.ecmp_path(tcp(nic_of(graph, "h1"), nic_of(graph, "h1"), 1)));
}

TEST_CASE("the reversed path runs over the same cables the other way") {
  const Graph graph = leaf_spine();
  const Path path = graph.paths(nic_of(graph, "h1"), nic_of(graph, "h16"))[2];
  const Path back = graph.reversed(path);
  CHECK(graph.path_names(back) == std::vector<std::string>{"h16:eth0", "leaf4:p7", "spine3:p1", "leaf1:p1"});
  CHECK(graph.reversed(back) == path);
}

TEST_CASE("the ECMP path follows the hash at every switch, as computed hop by hop") {
  std::mt19937 random(11);
  Graph graph = GENERATE(leaf_spine(), leaf_spine(3, 5, 6), Graph::build(fat_tree(4)));
  for (int round = 0; round < 400; ++round) {
    if (round % 10 == 9) graph.set_link_up(static_cast<LinkId>(random() % graph.links().size()), random() % 3 == 0);
    const Nic& src = graph.nics()[random() % graph.nics().size()];
    const Nic& dst = graph.nics()[random() % graph.nics().size()];
    if (&src == &dst) continue;
    const FiveTuple tuple = tcp(src, dst, static_cast<uint16_t>(random()));
    // Brute force: candidates at each hop are the distinct next links over all shortest paths, in egress order.
    const auto shortest = brute_force_paths(graph, src, dst, false);
    Path expected{src.uplink};
    bool dropped = !graph.link(src.uplink).up;
    while (!dropped && graph.link(expected.back()).to != dst.host) {
      const Node& node = graph.node(graph.link(expected.back()).to);
      std::vector<LinkId> group;
      for (LinkId id : node.egress)
        for (const Path& path : shortest)
          if (path.size() > expected.size() && path[expected.size()] == id &&
              graph.link(path[expected.size() - 1]).to == graph.link(expected.back()).to) {
            group.push_back(id);
            break;
          }
      std::vector<LinkId> live;
      for (LinkId id : group)
        if (graph.link(id).up) live.push_back(id);
      const uint32_t hash = orrery_ecmp_hash(node.hash_seed, *src.address.v4(), *dst.address.v4(), tuple.src_port,
                                             tuple.dst_port, IPPROTO_TCP);
      LinkId chosen = group[static_cast<size_t>((uint64_t{hash} * group.size()) >> 32)];
      if (live.empty()) {
        dropped = true;
      } else if (!graph.link(chosen).up) {
        chosen = live[static_cast<size_t>((uint64_t{orrery_hash_round(hash, 0x9e3779b9u)} * live.size()) >> 32)];
      }
      expected.push_back(chosen);
    }
    const auto actual = graph.ecmp_path(tuple);
    REQUIRE(actual.has_value() == !dropped);
    if (actual) REQUIRE(*actual == expected);
  }
}

TEST_CASE("when a link fails, only the flows that used it move") {
  Graph graph = leaf_spine();
  const Nic& src = nic_of(graph, "h1");
  const Nic& dst = nic_of(graph, "h9");
  std::map<uint16_t, Path> before;
  for (uint16_t port = 1; port < 500; ++port) before[port] = graph.ecmp_path(tcp(src, dst, port)).value();
  const LinkId victim = *graph.find_link("leaf1:p6");
  graph.set_link_up(victim, false);
  size_t moved = 0;
  for (const auto& [port, path] : before) {
    const Path after = graph.ecmp_path(tcp(src, dst, port)).value();
    const bool used_victim = path[1] == victim;
    CHECK((after != path) == used_victim);
    moved += used_victim;
  }
  CHECK(moved > 0);
}

TEST_CASE(
    "a group of more members than switches' masks hold is hashed over all of them, and around those that are down") {
  Graph graph = leaf_spine(2, 100, 4);
  const Nic& src = nic_of(graph, "h1");
  const Nic& dst = nic_of(graph, "h3");
  std::set<LinkId> used;
  std::map<uint16_t, Path> before;
  for (uint16_t port = 1; port < 4'000; ++port) {
    before[port] = graph.ecmp_path(tcp(src, dst, port)).value();
    used.insert(before[port][1]);
  }
  CHECK(used.size() == 100);
  const LinkId victim = *graph.find_link("leaf1:p90");
  graph.set_link_up(victim, false);
  std::set<LinkId> instead;
  for (const auto& [port, path] : before) {
    const Path after = graph.ecmp_path(tcp(src, dst, port)).value();
    if (path[1] == victim)
      instead.insert(after[1]);
    else
      CHECK(after == path);
  }
  CHECK(instead.size() > 10);
  CHECK_FALSE(instead.contains(victim));
}

TEST_CASE("drained links are not planned over but still carry what hashes to them") {
  Graph graph = leaf_spine(2, 2, 4);
  const Nic& src = nic_of(graph, "h1");
  const Nic& dst = nic_of(graph, "h3");
  const Path path = graph.ecmp_path(tcp(src, dst, 77)).value();
  graph.set_link_drained(path[1], true);
  CHECK(graph.ecmp_path(tcp(src, dst, 77)) == path);
  const auto planned = graph.paths(src, dst);
  REQUIRE(planned.size() == 1);
  CHECK(planned[0][1] != path[1]);
}

TEST_CASE("the ECMP path is unknown for IPv6, for addresses outside the fabric and for switches of unknown hash") {
  const Graph graph = leaf_spine();
  const Nic& src = nic_of(graph, "h1");
  CHECK_FALSE(graph.ecmp_path({src.address, IpAddress::from_v4(1), 1, 1, IPPROTO_TCP}));
  Topology topology = generate_leaf_spine({}).value();
  for (auto& spec : topology.switches) spec.hash_function = ORRERY_HASH_NONE;
  topology.hosts[0].nics[0].address = IpAddress::parse("fd00::1").value();
  const Graph other = Graph::build(topology);
  CHECK_FALSE(other.ecmp_path(tcp(nic_of(other, "h2"), nic_of(other, "h9"), 1)));
  CHECK(other.ecmp_path(tcp(nic_of(other, "h2"), nic_of(other, "h3"), 1)));  // no choice on one leaf
  CHECK_FALSE(other.ecmp_path(tcp(nic_of(other, "h1"), nic_of(other, "h3"), 1)));
}

TEST_CASE("a fat tree of a thousand hosts builds, and its groups are shared") {
  const Topology topology = fat_tree(16);
  REQUIRE(validate(topology));
  const Graph graph = Graph::build(topology);
  CHECK(graph.nics().size() == 1024);
  CHECK(graph.paths(graph.nics()[0], graph.nics()[1023]).size() == 64);
  const auto a = graph.next_hops(*graph.find_node("edge0-0"), graph.nics()[1023]);
  const auto b = graph.next_hops(*graph.find_node("edge0-0"), graph.nics()[512]);
  CHECK(a.size() == 8);
  CHECK(a.data() == b.data());
}

}  // namespace orrery::fabric
