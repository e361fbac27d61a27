#include "controller/drivers/ebpf/forwarding_table.h"

#include <catch2/catch.hpp>

#include "controller/fabric/topology.h"

namespace orrery::drivers::ebpf {
namespace {

fabric::Graph make_graph() {
  return fabric::Graph::build(fabric::generate_leaf_spine({}).value());
}

const Group& group_of(const ForwardingTable& table, const fabric::Graph& graph, std::string_view host) {
  for (const auto& nic : graph.nics())
    if (graph.node(nic.host).name == host)
      for (const auto& route : table.routes)
        if (route.address == nic.address.v4()) return table.groups[route.group];
  FAIL("no route to " << host);
  return table.groups[0];
}

}  // namespace

TEST_CASE("a leaf routes its own hosts to their ports and all others over every uplink") {
  const auto graph = make_graph();
  const auto table = make_forwarding_table(graph, "leaf1").value();
  REQUIRE(table.ports.size() == 8);
  CHECK(table.routes.size() == 16);
  CHECK(group_of(table, graph, "h1").members == std::vector<uint8_t>{0});
  CHECK(group_of(table, graph, "h5").members == std::vector<uint8_t>{4, 5, 6, 7});
  CHECK(group_of(table, graph, "h16").members == std::vector<uint8_t>{4, 5, 6, 7});
  CHECK(table.groups.size() == 5);
}

TEST_CASE("group members are ports in ascending order, as the data plane's hash numbers them") {
  const auto graph = make_graph();
  for (const auto& node : graph.nodes()) {
    if (node.kind != fabric::NodeKind::kSwitch) continue;
    const auto table = make_forwarding_table(graph, node.name).value();
    for (const auto& group : table.groups) CHECK(std::is_sorted(group.members.begin(), group.members.end()));
  }
}

TEST_CASE("a spine can divert to any other leaf, a leaf never to a spine that would send it back") {
  const auto graph = make_graph();
  const auto spine = make_forwarding_table(graph, "spine1").value();
  CHECK(group_of(spine, graph, "h1").members == std::vector<uint8_t>{0});
  CHECK(group_of(spine, graph, "h1").detour_ports == 0b1110);
  const auto leaf = make_forwarding_table(graph, "leaf1").value();
  CHECK(group_of(leaf, graph, "h1").detour_ports == 0);
  CHECK(group_of(leaf, graph, "h5").detour_ports == 0);
}

TEST_CASE("both ends of a cable agree on its addresses") {
  const auto graph = make_graph();
  const auto leaf = make_forwarding_table(graph, "leaf1").value(),
             spine = make_forwarding_table(graph, "spine1").value();
  const auto& link = graph.link(*graph.find_link("leaf1:p5"));
  CHECK(leaf.ports[4].peer_mac == spine.ports[*spine.find_port(link.peer_port)].own_mac);
  CHECK(leaf.ports[4].own_mac == spine.ports[*spine.find_port(link.peer_port)].peer_mac);
}

TEST_CASE("an unknown switch is reported with the nearest name") {
  const auto table = make_forwarding_table(make_graph(), "leaf9");
  REQUIRE(!table);
  CHECK(table.error().code == ErrorCode::kNotFound);
  CHECK(table.error().message.find("did you mean 'leaf") != std::string::npos);
  CHECK(!make_forwarding_table(make_graph(), "h1"));
}

TEST_CASE("MAC addresses parse strictly") {
  CHECK(parse_mac("02:ab:00:0f:ff:1").value() == MacAddress{0x02, 0xab, 0x00, 0x0f, 0xff, 0x01});
  for (const auto* wrong : {"", "02:ab:00:0f:ff", "02:ab:00:0f:ff:01:", "02:ab:00:0f:ff:zz", "0202:ab:00:0f:ff:01"})
    CHECK(!parse_mac(wrong));
}

}  // namespace orrery::drivers::ebpf
