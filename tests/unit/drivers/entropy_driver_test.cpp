#include "controller/drivers/entropy_driver.h"

#include <catch2/catch.hpp>
#include <random>

#include "common/abi/ecmp_hash_abi.h"
#include "controller/fabric/topology.h"

using namespace orrery;
using namespace orrery::drivers;

namespace {

fabric::Graph leaf_spine(uint8_t hash_function = ORRERY_HASH_MURMUR_5TUPLE) {
  fabric::Topology topology = *fabric::generate_leaf_spine({});
  for (auto& node : topology.switches) node.hash_function = hash_function;
  return fabric::Graph::build(topology);
}

// The first port of the directive's range that wins every hop, as the preload searches.
uint16_t winning_port(const HostDirective& directive, const Flow& flow, uint16_t dst_port) {
  for (uint32_t port = directive.src_port_first; port <= directive.src_port_last; ++port) {
    bool wins = true;
    for (const HashHop& hop : directive.hops)
      wins = wins && orrery_ecmp_member(orrery_ecmp_hash(hop.seed, *flow.src.v4(), *flow.dst.v4(),
                                                         static_cast<uint16_t>(port), dst_port, flow.protocol),
                                        hop.group_size) == hop.member;
    if (wins) return static_cast<uint16_t>(port);
  }
  return 0;
}

}  // namespace

TEST_CASE("the source port that wins the directive's hops takes exactly the planned path") {
  const fabric::Graph fabric = leaf_spine();
  EntropyDriver driver(fabric, {});
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const fabric::Nic& src = fabric.nics()[random() % fabric.nics().size()];
    const fabric::Nic& dst = fabric.nics()[random() % fabric.nics().size()];
    if (src.host == dst.host) continue;
    for (const fabric::Path& path : fabric.paths(src, dst)) {
      Flow flow{.flow_id = 1, .src = src.address, .dst = dst.address, .path = path};
      const auto directive = driver.direct(flow);
      REQUIRE(directive);
      const uint16_t dst_port = static_cast<uint16_t>(1024 + random() % 60000);
      const uint16_t port = directive->hops.empty() ? 40000 : winning_port(*directive, flow, dst_port);
      REQUIRE(port != 0);
      CHECK(fabric.ecmp_path({src.address, dst.address, port, dst_port, 6}) == path);
    }
  }
}

TEST_CASE("a flow that stays below one leaf needs nothing of the host") {
  const fabric::Graph fabric = leaf_spine();
  EntropyDriver driver(fabric, {});
  const fabric::Nic &src = fabric.nics()[0], &dst = fabric.nics()[1];
  const auto directive =
      driver.direct({.flow_id = 1, .src = src.address, .dst = dst.address, .path = fabric.paths(src, dst).front()});
  REQUIRE(directive);
  CHECK(directive->hops.empty());
  CHECK(directive->src_port_first == 0);
}

TEST_CASE("a switch whose hash is unknown is refused by name") {
  const fabric::Graph fabric = leaf_spine(ORRERY_HASH_NONE);
  EntropyDriver driver(fabric, {});
  const fabric::Nic &src = fabric.nics()[0], &dst = fabric.nics()[15];
  const auto directive =
      driver.direct({.flow_id = 1, .src = src.address, .dst = dst.address, .path = fabric.paths(src, dst).front()});
  REQUIRE_FALSE(directive);
  CHECK(directive.error().code == ErrorCode::kRefused);
  CHECK(directive.error().message.find("leaf1") != std::string::npos);
  CHECK(directive.error().message.find("hash.function") != std::string::npos);
}

TEST_CASE("a path no hash can give and a flow that hashes elsewhere are refused") {
  const fabric::Graph fabric = leaf_spine();
  EntropyDriver driver(fabric, {});
  const fabric::Nic &src = fabric.nics()[0], &dst = fabric.nics()[15];
  const auto paths = fabric.paths(src, dst);
  Flow flow{.flow_id = 1, .src = src.address, .dst = dst.address, .path = fabric.paths(src, fabric.nics()[5]).front()};
  CHECK(driver.direct(flow).error().code == ErrorCode::kRefused);
  flow.tuple = {src.address, dst.address, 40000, 5000, 6};
  const fabric::Path taken = *fabric.ecmp_path(flow.tuple);
  for (const fabric::Path& path : paths) {
    flow.path = path;
    CHECK(driver.direct(flow).has_value() == (path == taken));
  }
}

TEST_CASE("the range of source ports is the configured one") {
  const fabric::Graph fabric = leaf_spine();
  EntropyDriver driver(fabric, {.first = 40000, .last = 41000});
  const fabric::Nic &src = fabric.nics()[0], &dst = fabric.nics()[15];
  const auto directive =
      driver.direct({.flow_id = 1, .src = src.address, .dst = dst.address, .path = fabric.paths(src, dst).front()});
  CHECK(directive->src_port_first == 40000);
  CHECK(directive->src_port_last == 41000);
}

TEST_CASE("a RoCE flow searches the source ports of RoCE, and the port it finds takes the planned path") {
  const fabric::Graph fabric = leaf_spine();
  EntropyDriver driver(fabric, {20000, 20010});
  const fabric::Nic &src = fabric.nics()[0], &dst = fabric.nics()[4];
  for (const fabric::Path& path : fabric.paths(src, dst)) {
    const Flow flow{.flow_id = 1, .src = src.address, .dst = dst.address, .protocol = 17, .path = path};
    const auto directive = driver.direct(flow);
    REQUIRE(directive);
    CHECK(directive->src_port_first == 49152);
    CHECK(directive->src_port_last == 65535);
    const uint16_t port = winning_port(*directive, flow, 4791);
    REQUIRE(port != 0);
    CHECK(fabric.ecmp_path({src.address, dst.address, port, 4791, 17}) == path);
  }
}
