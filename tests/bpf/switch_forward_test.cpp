// The switch's data plane, packet by packet: what goes in, what must come out.
#include <linux/pkt_cls.h>
#include <netinet/in.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "common/base/clock.h"
#include "controller/drivers/ebpf/rule_set.h"
#include "controller/fabric/topology.h"
#include "tests/bpf/packet.h"

namespace orrery::test {
namespace {

using drivers::ebpf::build_rule_set;
using drivers::ebpf::RuleSpec;

constexpr uint64_t kForever = ~uint64_t{0};

fabric::Graph make_graph() {
  return fabric::Graph::build(fabric::generate_leaf_spine({}).value());
}

IpAddress address_of(const fabric::Graph& graph, std::string_view host) {
  for (const auto& nic : graph.nics())
    if (graph.node(nic.host).name == host) return nic.address;
  FAIL("no host " << host);
  return {};
}

struct Bench {
  fabric::Graph graph = make_graph();
  SwitchUnderTest leaf{graph, "leaf1"};

  FiveTuple tuple(std::string_view src, std::string_view dst, uint16_t src_port, uint16_t dst_port,
                  uint8_t protocol = IPPROTO_TCP) const {
    return {address_of(graph, src), address_of(graph, dst), src_port, dst_port, protocol};
  }
  std::string port_of(fabric::LinkId link) const { return graph.link(link).port; }
  // By the graph's own ECMP, at leaf1.
  std::string predicted(const FiveTuple& tuple) const { return port_of(graph.ecmp_path(tuple).value()[1]); }
  std::string host_port(std::string_view host) const {
    return graph.link(graph.node(*graph.find_node(host)).egress[0]).peer_port;
  }
  void install(const std::vector<RuleSpec>& rules, uint64_t valid_until_ns = kForever) {
    REQUIRE(leaf.plane().rules().install(build_rule_set(leaf.table(), rules).value(), valid_until_ns));
  }
  orrery_switch_port_counters counters(const std::string& port) {
    return leaf.plane().read_counters(*leaf.table().find_port(port)).value();
  }
};

RuleSpec pair_rule(uint32_t id, const FiveTuple& tuple, std::string egress, std::string backup = "") {
  RuleSpec rule{
      .rule_id = id, .src_address = *tuple.src.v4(), .src_mask = ~0u, .dst_address = *tuple.dst.v4(), .dst_mask = ~0u};
  rule.protocol = tuple.protocol;
  rule.protocol_mask = 0xff;
  rule.egress_port = std::move(egress);
  rule.backup_port = std::move(backup);
  return rule;
}

RuleSpec exact_rule(uint32_t id, const FiveTuple& tuple, std::string egress) {
  auto rule = pair_rule(id, tuple, std::move(egress));
  rule.src_port = tuple.src_port;
  rule.dst_port = tuple.dst_port;
  rule.src_port_mask = rule.dst_port_mask = 0xffff;
  return rule;
}

}  // namespace

TEST_CASE("ECMP sends every random flow where the graph predicts it, with members down too") {
  Bench bench;
  std::mt19937 random(7);
  const std::vector<std::string> uplinks = {"p5", "p6", "p7", "p8"};
  for (const uint64_t down : {0, 1, 6, 13}) {  // bit per uplink
    uint64_t up = 0xff;
    for (size_t i = 0; i < uplinks.size(); ++i) {
      const bool is_down = down >> i & 1;
      if (is_down) up &= ~(uint64_t{1} << *bench.leaf.table().find_port(uplinks[i]));
      bench.graph.set_link_up(*bench.graph.find_link("leaf1:" + uplinks[i]), !is_down);
    }
    bench.leaf.plane().set_ports_up(up);
    for (int i = 0; i < 1000; ++i) {
      const auto dst = "h" + std::to_string(5 + random() % 12);
      auto flow = bench.tuple("h1", dst, static_cast<uint16_t>(random()), static_cast<uint16_t>(random()),
                              random() % 2 ? IPPROTO_TCP : IPPROTO_UDP);
      REQUIRE(bench.leaf.forward(bench.host_port("h1"), make_packet({.tuple = flow})) == bench.predicted(flow));
    }
  }
}

TEST_CASE("a forwarded packet has the next hop's addresses, one hop less to live and a right checksum") {
  Bench bench;
  for (const int ttl : {2, 3, 64, 128, 255}) {
    const auto packet = make_packet({.tuple = bench.tuple("h1", "h2", 1, 2), .ttl = static_cast<uint8_t>(ttl)});
    const auto result = bench.leaf.run(bench.host_port("h1"), packet);
    REQUIRE(bench.leaf.egress_of(result) == bench.host_port("h2"));
    CHECK(result.frame[22] == ttl - 1);
    CHECK(header_sum(result.frame) == 0xffff);
    const auto& own = bench.leaf.table().ports[*bench.leaf.table().find_port(bench.host_port("h2"))].own_mac;
    CHECK(std::equal(own.begin(), own.end(), result.frame.begin() + 6));
    CHECK(std::equal(packet.begin() + 26, packet.end(), result.frame.begin() + 26));
  }
}

TEST_CASE("the TTL's checksum update is right for every header sum") {
  Bench bench;
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    auto packet = make_packet({.tuple = bench.tuple("h1", "h2", 1, 2)});
    packet[18] = static_cast<uint8_t>(random());  // identification
    packet[19] = static_cast<uint8_t>(random());
    packet[24] = packet[25] = 0;
    const uint16_t sum = static_cast<uint16_t>(~header_sum(packet));
    packet[24] = static_cast<uint8_t>(sum >> 8);
    packet[25] = static_cast<uint8_t>(sum);
    REQUIRE(header_sum(bench.leaf.run(bench.host_port("h1"), packet).frame) == 0xffff);
  }
}

TEST_CASE("packets that cannot be forwarded are dropped and counted under their cause") {
  Bench bench;
  const auto in = bench.host_port("h1");
  const auto good = make_packet({.tuple = bench.tuple("h1", "h5", 1, 2)});
  const auto dropped = [&](const Bytes& frame) {
    const auto result = bench.leaf.run(in, frame);
    return result.verdict == TC_ACT_SHOT;
  };
  SECTION("TTL 0 and 1 expire") {
    CHECK(dropped(make_packet({.tuple = bench.tuple("h1", "h5", 1, 2), .ttl = 1})));
    CHECK(dropped(make_packet({.tuple = bench.tuple("h1", "h5", 1, 2), .ttl = 0})));
    CHECK(bench.counters(in).ttl_expired == 2);
  }
  SECTION("ARP, IPv6, VLAN tags and unknown types are not supported") {
    for (const uint16_t type : {0x0806, 0x86dd, 0x8100, 0x88a8, 0x88cc})
      CHECK(dropped(make_packet({.tuple = bench.tuple("h1", "h5", 1, 2), .ether_type = type})));
    CHECK(bench.counters(in).unsupported == 5);
  }
  SECTION("an unknown destination has no route") {
    auto flow = bench.tuple("h1", "h5", 1, 2);
    for (const uint32_t dst : {0x08080808u, 0xe0000001u, 0xffffffffu, 0u}) {
      flow.dst = IpAddress::from_v4(dst);
      CHECK(dropped(make_packet({.tuple = flow})));
    }
    CHECK(bench.counters(in).no_route == 4);
  }
  SECTION("contradicting lengths are malformed") {
    auto version = good, short_header = good, long_header = good, long_total = good, short_total = good,
         no_ports = good;
    version[14] = 0x65;
    short_header[14] = 0x44;
    long_header[14] = 0x4f;
    long_header[17] = 30;
    long_total[16] = 0xff;
    short_total[16] = 0, short_total[17] = 19;
    no_ports[16] = 0, no_ports[17] = 22;
    for (const auto& frame : {version, short_header, long_header, long_total, short_total, no_ports})
      CHECK(dropped(frame));
    CHECK(bench.counters(in).malformed == 6);
  }
}

TEST_CASE("a packet cut anywhere, or of random bytes, is dropped or forwarded, never trusted beyond its end") {
  Bench bench;
  const auto in = bench.host_port("h1");
  const auto good = make_packet({.tuple = bench.tuple("h1", "h2", 1, 2), .option_words = 3, .payload_bytes = 0});
  for (size_t length = 34; length < good.size(); ++length)
    CHECK(bench.leaf.run(in, {good.begin(), good.begin() + static_cast<long>(length)}).verdict == TC_ACT_SHOT);
  CHECK(bench.leaf.run(in, good).verdict == TC_ACT_REDIRECT);
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    Bytes garbage(34 + random() % 120);
    for (auto& byte : garbage) byte = static_cast<uint8_t>(random());
    garbage[12] = 8, garbage[13] = 0;
    const auto verdict = bench.leaf.run(in, garbage).verdict;
    REQUIRE((verdict == TC_ACT_SHOT || verdict == TC_ACT_REDIRECT));
  }
}

TEST_CASE("fragments and protocols without ports take one path whatever lies where ports would be") {
  Bench bench;
  const auto in = bench.host_port("h1");
  for (uint16_t port = 1; port < 60; ++port) {
    const auto tcp = bench.tuple("h1", "h9", port, 5000), icmp = bench.tuple("h1", "h9", port, 5000, IPPROTO_ICMP);
    const auto no_ports = bench.tuple("h1", "h9", 0, 0);
    REQUIRE(bench.leaf.forward(in, make_packet({.tuple = tcp, .fragment = 0x2000})) == bench.predicted(no_ports));
    REQUIRE(bench.leaf.forward(in, make_packet({.tuple = tcp, .fragment = 0x0010})) == bench.predicted(no_ports));
    REQUIRE(bench.leaf.forward(in, make_packet({.tuple = tcp, .fragment = 0x4000})) == bench.predicted(tcp));
    REQUIRE(bench.leaf.forward(in, make_packet({.tuple = icmp})) ==
            bench.predicted(bench.tuple("h1", "h9", 0, 0, IPPROTO_ICMP)));
    REQUIRE(bench.leaf.forward(in, make_packet({.tuple = tcp, .option_words = 10})) == bench.predicted(tcp));
  }
}

TEST_CASE("a rule pins its packets to a port, the most specific rule wins, all others stay with ECMP") {
  Bench bench;
  const auto in = bench.host_port("h1");
  const auto flow = bench.tuple("h1", "h9", 1000, 2000);
  for (const std::string pair_port : {"p5", "p6", "p7", "p8"})
    for (const std::string exact_port : {"p5", "p8"}) {
      bench.install({pair_rule(1, flow, pair_port), exact_rule(2, flow, exact_port)});
      CHECK(bench.leaf.forward(in, make_packet({.tuple = flow})) == exact_port);
      auto sibling = flow;
      sibling.src_port = 1001;
      CHECK(bench.leaf.forward(in, make_packet({.tuple = sibling})) == pair_port);
      const auto other = bench.tuple("h1", "h10", 1000, 2000), udp = bench.tuple("h1", "h9", 1000, 2000, IPPROTO_UDP);
      CHECK(bench.leaf.forward(in, make_packet({.tuple = other})) == bench.predicted(other));
      CHECK(bench.leaf.forward(in, make_packet({.tuple = udp})) == bench.predicted(udp));
      bench.leaf.plane().rules().purge();
    }
  CHECK(bench.counters(in).rule_hits == 16);
}

TEST_CASE("random rules of eight masks decide exactly as a search of the list does") {
  Bench bench;
  std::mt19937 random(5);
  std::vector<RuleSpec> rules;
  const uint32_t base = *address_of(bench.graph, "h9").v4();
  for (uint32_t i = 0; i < 400; ++i) {
    const uint32_t kind = i % 8;
    RuleSpec rule{.rule_id = i + 1,
                  .src_address = *address_of(bench.graph, "h1").v4(),
                  .src_mask = kind & 1 ? ~0u : 0,
                  .dst_address = base + static_cast<uint32_t>(random() % 4),
                  .dst_mask = ~0u};
    rule.src_port = static_cast<uint16_t>(random() % 32);
    rule.src_port_mask = kind & 2 ? 0xffff : 0;
    rule.dst_port = static_cast<uint16_t>(random() % 16);
    rule.dst_port_mask = kind & 4 ? 0xffff : 0;
    rule.protocol = IPPROTO_TCP;
    rule.protocol_mask = 0xff;
    rule.egress_port = "p" + std::to_string(5 + random() % 4);
    const auto same = [&](const RuleSpec& r) {
      const auto a = to_wire_order(r), b = to_wire_order(rule), ma = mask_of(r), mb = mask_of(rule);
      return std::memcmp(&a, &b, sizeof(a)) == 0 && std::memcmp(&ma, &mb, sizeof(ma)) == 0;
    };
    if (std::none_of(rules.begin(), rules.end(), same)) rules.push_back(rule);
  }
  bench.install(rules);
  const auto order = build_rule_set(bench.leaf.table(), rules).value();
  for (int i = 0; i < 2000; ++i) {
    auto flow = bench.tuple("h1", "h9", static_cast<uint16_t>(random() % 32), static_cast<uint16_t>(random() % 16));
    flow.dst = IpAddress::from_v4(base + static_cast<uint32_t>(random() % 4));
    std::optional<std::string> expected;
    for (size_t mask = 0; mask < order.masks.size() && !expected; ++mask)
      for (size_t r = 0; r < rules.size() && !expected; ++r) {
        const auto& rule = rules[r];
        const bool hit = (*flow.src.v4() & rule.src_mask) == (rule.src_address & rule.src_mask) &&
                         *flow.dst.v4() == rule.dst_address &&
                         (flow.src_port & rule.src_port_mask) == (rule.src_port & rule.src_port_mask) &&
                         (flow.dst_port & rule.dst_port_mask) == (rule.dst_port & rule.dst_port_mask);
        if (hit && order.rules[r].key.mask_index == mask) expected = rule.egress_port;
      }
    if (!expected) expected = bench.predicted(flow);
    REQUIRE(bench.leaf.forward(bench.host_port("h1"), make_packet({.tuple = flow})) == expected);
  }
}

TEST_CASE("an expired lease leaves plain ECMP, a renewed one brings the rules back") {
  Bench bench;
  const auto flow = bench.tuple("h1", "h9", 1000, 2000);
  const std::string pinned = bench.predicted(flow) == "p5" ? "p6" : "p5";
  const auto leaves_by = [&] { return bench.leaf.forward(bench.host_port("h1"), make_packet({.tuple = flow})); };
  bench.install({pair_rule(1, flow, pinned)});
  CHECK(leaves_by() == pinned);
  bench.leaf.plane().rules().renew(monotonic_now_ns());
  CHECK(leaves_by() == bench.predicted(flow));
  bench.leaf.plane().rules().renew(kForever);
  CHECK(leaves_by() == pinned);
  bench.leaf.plane().rules().withdraw();
  CHECK(leaves_by() == bench.predicted(flow));
}

TEST_CASE("a rule whose port is down uses its backup, without one it falls back to ECMP, and both are counted") {
  Bench bench;
  const auto in = bench.host_port("h1");
  const auto flow = bench.tuple("h1", "h9", 1000, 2000), bare = bench.tuple("h1", "h10", 1000, 2000);
  bench.install({pair_rule(1, flow, "p5", "p7"), pair_rule(2, bare, "p5")});
  const auto bit = [&](const std::string& port) { return uint64_t{1} << *bench.leaf.table().find_port(port); };
  bench.leaf.plane().set_ports_up(0xff & ~bit("p5"));
  bench.graph.set_link_up(*bench.graph.find_link("leaf1:p5"), false);
  CHECK(bench.leaf.forward(in, make_packet({.tuple = flow})) == "p7");
  CHECK(bench.leaf.forward(in, make_packet({.tuple = bare})) == bench.predicted(bare));
  bench.leaf.plane().set_ports_up(0xff & ~bit("p5") & ~bit("p7"));
  bench.graph.set_link_up(*bench.graph.find_link("leaf1:p7"), false);
  CHECK(bench.leaf.forward(in, make_packet({.tuple = flow})) == bench.predicted(flow));
  const auto counts = bench.leaf.plane().rules().counts();
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].counters.packets == 2);
  CHECK(counts[0].counters.backup_packets == 1);
  CHECK(counts[0].counters.ecmp_packets == 1);
  CHECK(counts[1].counters.ecmp_packets == 1);
}

TEST_CASE("a rule set is replaced whole: unchanged rules keep their counters, removed ones are gone") {
  Bench bench;
  const auto in = bench.host_port("h1");
  const auto kept = bench.tuple("h1", "h9", 1, 2), removed = bench.tuple("h1", "h10", 1, 2);
  bench.install({pair_rule(1, kept, "p5"), pair_rule(2, removed, "p6")});
  bench.leaf.forward(in, make_packet({.tuple = kept}));
  bench.install({pair_rule(1, kept, "p8")});
  CHECK(bench.leaf.forward(in, make_packet({.tuple = kept})) == "p8");
  CHECK(bench.leaf.forward(in, make_packet({.tuple = removed})) == bench.predicted(removed));
  REQUIRE(bench.leaf.plane().rules().counts().size() == 1);
  CHECK(bench.leaf.plane().rules().counts()[0].counters.packets == 2);
  for (int i = 0; i < 40; ++i) {
    const std::string port = "p" + std::to_string(5 + i % 4);
    bench.install({pair_rule(1, kept, port), exact_rule(3, removed, port)});
    REQUIRE(bench.leaf.forward(in, make_packet({.tuple = kept})) == port);
    REQUIRE(bench.leaf.forward(in, make_packet({.tuple = removed})) == port);
    if (i % 3 == 0) bench.leaf.plane().rules().purge();
  }
  CHECK(bench.leaf.plane().rules().counts()[0].counters.packets == 42);
}

TEST_CASE("a full table of rules installs twice over and every rule matches") {
  Bench bench;
  std::vector<RuleSpec> rules;
  auto flow = bench.tuple("h1", "h9", 0, 0);
  for (uint32_t i = 0; i < ORRERY_SWITCH_MAX_RULES; ++i) {
    flow.src_port = static_cast<uint16_t>(i);
    rules.push_back(exact_rule(i + 1, flow, "p" + std::to_string(5 + i % 4)));
  }
  for (int round = 0; round < 3; ++round) bench.install(rules);
  for (uint32_t i = 0; i < ORRERY_SWITCH_MAX_RULES; i += 97) {
    flow.src_port = static_cast<uint16_t>(i);
    REQUIRE(bench.leaf.forward(bench.host_port("h1"), make_packet({.tuple = flow})) == "p" + std::to_string(5 + i % 4));
  }
}

TEST_CASE(
    "a spine that lost its link to a leaf hands packets to another leaf once, and that leaf sends them another way") {
  Bench bench;
  SwitchUnderTest spine(bench.graph, "spine1");
  const auto flow = bench.tuple("h5", "h1", 1000, 2000);  // leaf2 to leaf1
  const auto& down = bench.graph.link(*bench.graph.find_link("spine1:p1"));
  REQUIRE(bench.graph.node(down.to).name == "leaf1");
  spine.plane().set_ports_up(0xff & ~uint64_t{1});
  const auto& from_leaf2 = spine.table().ports[1];
  auto packet = make_packet({.tuple = flow});
  std::copy_n(from_leaf2.peer_mac.begin(), 6, packet.begin() + 6);
  const auto diverted = spine.run("p2", packet);
  const auto port = spine.egress_of(diverted);
  REQUIRE((port == "p3" || port == "p4"));
  CHECK(header_sum(diverted.frame) == 0xffff);
  CHECK(spine.plane().read_counters(1).value().diverted == 1);

  SECTION("the other leaf does not send it back") {
    SwitchUnderTest leaf(bench.graph, port == "p3" ? "leaf3" : "leaf4");
    const auto onward = leaf.forward("p5", diverted.frame);  // p5: its link to spine1
    CHECK((onward == "p6" || onward == "p7" || onward == "p8"));
  }
  SECTION("a packet that was diverted already is dropped") {
    auto again = packet;
    again[6] ^= ORRERY_SWITCH_MAC_DIVERTED;
    CHECK(spine.run("p2", again).verdict == TC_ACT_SHOT);
    CHECK(spine.plane().read_counters(1).value().no_route == 1);
  }
  SECTION("with no other leaf left it goes back where it came from") {
    spine.plane().set_ports_up(0x2);
    CHECK(spine.forward("p2", packet) == "p2");
  }
}

TEST_CASE("a host whose link is down is not looked for elsewhere") {
  Bench bench;
  bench.leaf.plane().set_ports_up(0xff & ~(uint64_t{1} << *bench.leaf.table().find_port(bench.host_port("h2"))));
  CHECK(bench.leaf.run(bench.host_port("h1"), make_packet({.tuple = bench.tuple("h1", "h2", 1, 2)})).verdict ==
        TC_ACT_SHOT);
  CHECK(bench.counters(bench.host_port("h1")).no_route == 1);
}

}  // namespace orrery::test
