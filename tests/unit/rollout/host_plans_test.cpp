#include "controller/rollout/host_plans.h"

#include <catch2/catch.hpp>

#include "controller/drivers/entropy_driver.h"
#include "controller/fabric/topology.h"
#include "tests/fakes/fake_driver.h"

using namespace orrery;
using namespace orrery::rollout;

namespace {
struct Fixture {
  fabric::Graph fabric = fabric::Graph::build(*fabric::generate_leaf_spine({}));
  drivers::Flow flow(uint64_t id, size_t src, size_t dst) const {
    const fabric::Nic &from = fabric.nics()[src], &to = fabric.nics()[dst];
    return {
        .flow_id = id, .comm_id = 9, .src = from.address, .dst = to.address, .path = fabric.paths(from, to).front()};
  }
  std::string host(size_t nic) const { return fabric.node(fabric.nics()[nic].host).name; }
};
}  // namespace

TEST_CASE_METHOD(Fixture,
                 "each flow is told to the host that sends it, with the driver's directive and its path by name") {
  drivers::EntropyDriver driver(fabric, {});
  const HostPlans plans = make_host_plans(fabric, driver, {flow(1, 0, 15), flow(2, 0, 8), flow(3, 15, 0)});
  CHECK(plans.accepted.size() == 3);
  CHECK(plans.refused.empty());
  REQUIRE(plans.by_host.size() == 2);
  const auto& first = plans.by_host.at(host(0));
  REQUIRE(first.size() == 2);
  CHECK(first[0].flow_id == 1);
  CHECK(first[0].comm_id == 9);
  CHECK(first[0].hops.size() == 1);
  CHECK(first[0].src_port_first == 32768);
  CHECK(first[0].path == fabric.path_names(flow(1, 0, 15).path));
  CHECK(plans.by_host.at(host(15)).front().flow_id == 3);
}

TEST_CASE_METHOD(Fixture, "a flow that cannot be carried out is left out with the reason, and the others are not") {
  test::FakeDriver driver;
  driver.refused_flows = {2};
  drivers::Flow stranger = flow(3, 0, 1), pathless = flow(4, 0, 1);
  stranger.src = IpAddress::from_v4(0xc0a80001);
  pathless.path.clear();
  const HostPlans plans = make_host_plans(fabric, driver, {flow(1, 0, 15), flow(2, 0, 8), stranger, pathless});
  REQUIRE(plans.accepted.size() == 1);
  CHECK(plans.accepted[0].flow_id == 1);
  CHECK(plans.refused.at(2) == "no room");
  CHECK(plans.refused.at(3).find("192.168.0.1") != std::string::npos);
  CHECK(plans.refused.at(4).find("no usable path") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a flow that exists concerns its host only for offset and pace") {
  test::FakeDriver driver;
  drivers::Flow live = flow(1, 0, 15), paced = flow(2, 0, 14);
  live.tuple = {live.src, live.dst, 40000, 5000, 6};
  paced.tuple = {paced.src, paced.dst, 40001, 5000, 6};
  paced.pace_bps = 1'000'000;
  const HostPlans plans = make_host_plans(fabric, driver, {live, paced});
  CHECK(plans.accepted.size() == 2);
  REQUIRE(plans.by_host.at(host(0)).size() == 1);
  CHECK(plans.by_host.at(host(0)).front().tuple == paced.tuple);
}
