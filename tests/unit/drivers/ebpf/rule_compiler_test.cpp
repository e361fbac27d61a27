#include "controller/drivers/ebpf/rule_compiler.h"

#include <catch2/catch.hpp>
#include <random>

#include "controller/fabric/topology.h"

namespace orrery::drivers::ebpf {
namespace {

struct Fabric {
  fabric::Graph graph = fabric::Graph::build(fabric::generate_leaf_spine({}).value());

  const fabric::Nic& nic(const std::string& host) const {
    for (const auto& nic : graph.nics())
      if (graph.node(nic.host).name == host) return nic;
    throw std::runtime_error("no host " + host);
  }
  // Over the spine-th of the shortest paths, with the next one as backup.
  Flow flow(const std::string& src, const std::string& dst, size_t spine, uint16_t src_port = 0,
            uint16_t dst_port = 0) const {
    const auto paths = graph.paths(nic(src), nic(dst));
    Flow flow{.flow_id = next_id++, .src = nic(src).address, .dst = nic(dst).address};
    flow.tuple = {flow.src, flow.dst, src_port, dst_port, 6};
    flow.path = paths[spine % paths.size()];
    if (paths.size() > 1) flow.backups = {paths[(spine + 1) % paths.size()]};
    return flow;
  }
  CompiledPlan compile(const std::vector<Flow>& flows, TableLimits limits = {16384, 8}) const {
    return compile_rules(graph, flows, [&](fabric::NodeId) { return limits; }).value();
  }
  std::optional<fabric::Path> walk(const CompiledPlan& plan, const FiveTuple& tuple) const {
    const auto *src = graph.find_nic(tuple.src), *dst = graph.find_nic(tuple.dst);
    fabric::Path path{src->uplink};
    while (graph.link(path.back()).to != dst->host) {
      const auto hop = next_hop(graph, plan, graph.link(path.back()).to, tuple, *dst);
      if (!hop.egress) return std::nullopt;
      path.push_back(*hop.egress);
    }
    return path;
  }
  fabric::Path reversed(const fabric::Path& path) const {
    fabric::Path result;
    for (auto link = path.rbegin(); link != path.rend(); ++link) result.push_back(graph.link(*link).reverse);
    return result;
  }
  mutable uint64_t next_id = 1;
};

FiveTuple connection(const Flow& flow, uint16_t src_port, uint16_t dst_port) {
  return {flow.src, flow.dst, src_port, dst_port, flow.protocol};
}

size_t count(const CompiledPlan& plan) {
  size_t rules = 0;
  for (const auto& [at, list] : plan) rules += list.size();
  return rules;
}

}  // namespace

TEST_CASE("a flow gets a rule at each leaf that chooses and none at spines") {
  const Fabric f;
  const auto flow = f.flow("h1", "h5", 2);
  const auto plan = f.compile({flow});
  REQUIRE(plan.size() == 2);
  const auto& forward = plan.at(*f.graph.find_node("leaf1"))[0];
  CHECK(f.graph.link_name(forward.egress) == "leaf1:p7");
  CHECK(f.graph.link_name(forward.backup) == "leaf1:p8");
  const auto& answers = plan.at(*f.graph.find_node("leaf2"))[0];
  CHECK(f.graph.link_name(answers.egress) == "leaf2:p7");
  CHECK(f.graph.link_name(answers.backup) == "leaf2:p8");
}

TEST_CASE("flows under one leaf need no rules") {
  const Fabric f;
  CHECK(f.compile({f.flow("h1", "h2", 0)}).empty());
}

TEST_CASE("any connection of a pair takes the planned path, its answers the same links backwards") {
  const Fabric f;
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const auto flow = f.flow("h1", "h" + std::to_string(5 + random() % 12), random());
    const auto plan = f.compile({flow});
    const auto tuple = connection(flow, static_cast<uint16_t>(random()), static_cast<uint16_t>(random()));
    REQUIRE(f.walk(plan, tuple) == flow.path);
    REQUIRE(f.walk(plan, tuple.reversed()) == f.reversed(flow.path));
  }
}

TEST_CASE("a flow planned for the other direction has precedence over answers") {
  const Fabric f;
  const auto there = f.flow("h1", "h5", 0), back = f.flow("h5", "h1", 3);
  for (const auto& flows : {std::vector{there, back}, std::vector{back, there}}) {
    const auto plan = f.compile(flows);
    CHECK(count(plan) == 2);
    CHECK(f.walk(plan, connection(there, 7, 8)) == there.path);
    CHECK(f.walk(plan, connection(back, 7, 8)) == back.path);
  }
}

TEST_CASE("a connection that carries data both ways takes each direction's own path") {
  const Fabric f;
  const auto there = f.flow("h1", "h5", 0, 100, 200), back = f.flow("h5", "h1", 3, 200, 100),
             other = f.flow("h5", "h1", 2, 300, 100);
  for (const auto& flows : {std::vector{there, back, other}, std::vector{other, back, there}}) {
    const auto plan = f.compile(flows);
    for (const auto& flow : flows) CHECK(f.walk(plan, flow.tuple) == flow.path);
    CHECK(f.walk(plan, other.tuple.reversed()) == f.reversed(other.path));
  }
}

TEST_CASE("live flows of one pair with ways of their own get exact rules") {
  const Fabric f;
  const auto all = f.flow("h1", "h5", 0), one = f.flow("h1", "h5", 1, 100, 200), two = f.flow("h1", "h5", 2, 101, 200),
             same = f.flow("h1", "h5", 0, 102, 200);
  const auto plan = f.compile({one, all, two, same});
  CHECK(plan.at(*f.graph.find_node("leaf1")).size() == 3);
  for (const auto& flow : {one, two, same}) {
    CHECK(f.walk(plan, flow.tuple) == flow.path);
    CHECK(f.walk(plan, flow.tuple.reversed()) == f.reversed(flow.path));
  }
  CHECK(f.walk(plan, connection(all, 103, 200)) == all.path);
}

TEST_CASE("flows with ports and one path share a single rule per pair") {
  const Fabric f;
  std::vector<Flow> flows;
  for (uint16_t port = 1; port <= 50; ++port) flows.push_back(f.flow("h1", "h5", 1, port, 9));
  CHECK(count(f.compile(flows)) == 2);
}

TEST_CASE("a table that is too small is filled with rules merged by destination") {
  const Fabric f;
  std::vector<Flow> flows;
  for (const std::string src : {"h1", "h2", "h3", "h4"})
    for (const std::string dst : {"h5", "h6", "h9", "h10"}) flows.push_back(f.flow(src, dst, dst == "h5" ? 0 : 1));
  const auto roomy = f.compile(flows);
  CHECK(roomy.at(*f.graph.find_node("leaf1")).size() == 16);
  const auto tight = f.compile(flows, {8, 8});
  CHECK(tight.at(*f.graph.find_node("leaf1")).size() == 4);
  for (const auto& flow : flows) CHECK(f.walk(tight, connection(flow, 5, 6)) == flow.path);
}

TEST_CASE("a table that cannot hold the plan even so is refused by name") {
  const Fabric f;
  std::vector<Flow> flows;
  for (const std::string src : {"h1", "h2"})
    for (const std::string dst : {"h5", "h6"}) flows.push_back(f.flow(src, dst, src == "h1" ? 0 : 1));
  const auto plan = compile_rules(f.graph, flows, [](fabric::NodeId) { return TableLimits{3, 8}; });
  REQUIRE(!plan);
  CHECK(plan.error().code == ErrorCode::kExhausted);
  CHECK(plan.error().message == "switch leaf1 needs 4 rules for this plan; its table holds 3");
  const auto masks = compile_rules(f.graph, {f.flow("h1", "h5", 0), f.flow("h1", "h5", 1, 5, 6)}, [](fabric::NodeId) {
    return TableLimits{100, 1};
  });
  CHECK(masks.error().message == "switch leaf1 needs 2 kinds of match for this plan; it has 1");
}

TEST_CASE("a rule's backup is used while its port is down, ECMP when neither is up") {
  Fabric f;
  const auto flow = f.flow("h1", "h5", 0);
  const auto plan = f.compile({flow});
  const auto tuple = connection(flow, 1, 2);
  f.graph.set_link_up(flow.path[1], false);
  CHECK((*f.walk(plan, tuple))[1] == flow.backups[0][1]);
  f.graph.set_link_up(flow.backups[0][1], false);
  CHECK(f.walk(plan, tuple) == f.graph.ecmp_path(tuple));
}

TEST_CASE("flows without a path, and of addresses outside the fabric, get no rules") {
  const Fabric f;
  auto no_path = f.flow("h1", "h5", 0), foreign = f.flow("h1", "h5", 0), six = f.flow("h1", "h5", 0);
  no_path.path.clear();
  foreign.dst = IpAddress::from_v4(0x08080808);
  six.src = IpAddress::parse("fd00::1").value();
  CHECK(f.compile({no_path, foreign, six}).empty());
}

TEST_CASE("rules for RoCE and for TCP of one pair lead both the same way, in both directions") {
  const Fabric fabric;
  Flow tcp = fabric.flow("h1", "h5", 2), roce = tcp;
  roce.protocol = roce.tuple.protocol = 17;
  const CompiledPlan plan = fabric.compile({tcp, roce});
  CHECK(count(plan) == 2 * count(fabric.compile({tcp})));
  CHECK(fabric.walk(plan, connection(tcp, 40000, 5000)) == tcp.path);
  for (const uint16_t sport : {49152, 50000, 65535}) {
    CHECK(fabric.walk(plan, connection(roce, sport, 4791)) == roce.path);
    CHECK(fabric.walk(plan, {roce.dst, roce.src, sport, 4791, 17}) == fabric.reversed(roce.path));
  }
}

}  // namespace orrery::drivers::ebpf
