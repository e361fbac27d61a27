#include "controller/planner/schedule.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "controller/planner/problem.h"
#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

TEST_CASE("flows that share a link start one share of its queue apart") {
  const auto fabric = clos({.leaves = 2, .spines = 1, .hosts = 8, .rate_bps = 100'000'000, .queue_bytes = 100'000});
  Snapshot snapshot{.fabric = &fabric};
  for (uint32_t host = 0; host < 4; ++host)
    snapshot.flows.push_back(demand(fabric, host + 1, host, host + 4, 4'000'000));
  const Plan plan = plan_checked(snapshot);
  // 100 kB at 100 Mbit/s drain in 8 ms, four flows share each of the two links between the leaves.
  for (uint32_t flow = 0; flow < 4; ++flow) CHECK(plan.flows[flow].release_offset_ns == flow * 2'000'000);
}

TEST_CASE("where a round has many collectives, each waits as long as its own part of the bytes allows") {
  const auto fabric = clos({.leaves = 2, .spines = 1, .hosts = 8, .rate_bps = 100'000'000, .queue_bytes = 100'000});
  const auto last_start = [&](uint32_t collectives) {
    Snapshot snapshot{.fabric = &fabric};
    for (uint32_t host = 0; host < 4; ++host) {
      snapshot.flows.push_back(demand(fabric, host + 1, host, host + 4, 4'000'000));
      snapshot.flows.back().collectives = collectives;
    }
    return plan_checked(snapshot).flows[3].release_offset_ns;
  };
  // 16 MB in 20 collectives: a hundredth of one is 8 kB, which drain in 640 us.
  CHECK(last_start(20) == 3 * 160'000);
  CHECK(20 * last_start(20) * 100 <= 1'280'000'000);
  CHECK(last_start(1) == 3 * 2'000'000);
}

TEST_CASE("flows that are alone on their links start at once and unpaced") {
  const auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
  const Plan plan = plan_checked({.fabric = &fabric, .flows = ring(fabric, interleaved(16, 4), 1'000'000)});
  for (const FlowAssignment& flow : plan.flows) {
    CHECK(flow.release_offset_ns == 0);
    CHECK(flow.pace_bps == 0);
  }
}

TEST_CASE("stagger can be switched off") {
  const auto fabric = clos({.leaves = 2, .spines = 1, .hosts = 4});
  Snapshot snapshot{.fabric = &fabric, .flows = {demand(fabric, 1, 0, 2, 1000), demand(fabric, 2, 1, 3, 1000)}};
  snapshot.options.stagger = false;
  for (const FlowAssignment& flow : plan_checked(snapshot).flows) CHECK(flow.release_offset_ns == 0);
}

TEST_CASE("paces on a link never add up to more than its rate, and shares follow the bytes") {
  const auto fabric = clos({.leaves = 3, .spines = 2, .hosts = 9});
  Random random(31);
  for (int round = 0; round < 100; ++round) {
    Snapshot snapshot{.fabric = &fabric};
    for (uint32_t flow = 0; flow < 20; ++flow) {
      const uint32_t src = random.below(9);
      snapshot.flows.push_back(demand(fabric, flow, src, (src + 1 + random.below(8)) % 9, 1000 + random.below(9000)));
    }
    const Plan plan = plan_checked(snapshot);
    const auto count = flows_per_link(fabric, plan);
    std::vector<uint64_t> sum(count.size());
    for (const FlowAssignment& flow : plan.flows) {
      bool shares = false;
      for (auto id : flow.path) {
        sum[id] += flow.pace_bps;
        shares = shares || count[id] > 1;
      }
      REQUIRE((flow.pace_bps > 0) == shares);
    }
    for (size_t id = 0; id < sum.size(); ++id)
      REQUIRE(sum[id] <= fabric.link(static_cast<fabric::LinkId>(id)).rate_bps);
  }
}

TEST_CASE("what is not sent at the same time as the rest of its communicator is not paced") {
  const auto fabric = clos({.leaves = 2, .spines = 1, .hosts = 4});
  Snapshot snapshot{.fabric = &fabric, .flows = {demand(fabric, 1, 0, 2, 1000), demand(fabric, 2, 1, 3, 1000)}};
  for (const FlowAssignment& flow : plan_checked(snapshot).flows) CHECK(flow.pace_bps != 0);
  for (FlowDemand& flow : snapshot.flows) flow.in_step = false;
  for (const FlowAssignment& flow : plan_checked(snapshot).flows) CHECK(flow.pace_bps == 0);
}

TEST_CASE("on every shared link behind the sender, starts are a share of the queue apart") {
  const auto fabric = clos({.leaves = 3, .spines = 2, .hosts = 9});
  Random random(32);
  for (int round = 0; round < 50; ++round) {
    Snapshot snapshot{.fabric = &fabric};
    for (uint32_t flow = 0; flow < 15; ++flow) {
      const uint32_t src = random.below(9);
      snapshot.flows.push_back(
          demand(fabric, flow, src, (src + 1 + random.below(8)) % 9, round % 2 ? 1000 : 10'000'000));
    }
    const Plan plan = plan_checked(snapshot);
    const auto count = flows_per_link(fabric, plan);
    for (const FlowAssignment& a : plan.flows)
      for (const FlowAssignment& b : plan.flows) {
        if (a.flow_id >= b.flow_id) continue;
        for (size_t hop = 1; hop < a.path.size(); ++hop) {
          const auto id = a.path[hop];
          if (std::find(b.path.begin() + 1, b.path.end(), id) == b.path.end()) continue;
          const uint64_t burst = std::min(fabric.link(id).queue_bytes, plan.link_bytes[id] / 100);
          const uint64_t step = drain_ns(burst, fabric.link(id).rate_bps) / count[id];
          REQUIRE(step > 0);
          const uint64_t gap = a.release_offset_ns > b.release_offset_ns ? a.release_offset_ns - b.release_offset_ns
                                                                         : b.release_offset_ns - a.release_offset_ns;
          REQUIRE(gap >= step);
        }
      }
  }
}

TEST_CASE("subflows that share only their own NIC are unpaced; else the tightest sets the pace of the whole flow") {
  auto fabric = clos({.leaves = 2, .spines = 3, .hosts = 6});
  Snapshot snapshot{.fabric = &fabric};
  for (uint32_t host = 0; host < 3; ++host)
    snapshot.flows.push_back(demand(fabric, host + 1, host, host + 3, 3'000'000));
  for (FlowDemand& flow : snapshot.flows) flow.subflows = 3;
  for (const FlowAssignment& flow : plan_checked(snapshot).flows) CHECK(flow.pace_bps == 0);
  for (FlowDemand& flow : snapshot.flows) flow.subflows = 4;
  set_cable(fabric, "leaf1", "spine2", false);
  // Twelve subflows on two links of 100 Mbit/s: each a sixth of one, four of them two thirds.
  for (const FlowAssignment& flow : plan_checked(snapshot).flows) CHECK(flow.pace_bps == 4 * (100'000'000 / 6));
}

TEST_CASE("the published stagger: 200 KB queues at 100 Gb/s and four to eight flows make 2 to 4 us") {
  for (const uint32_t flows : {4u, 8u}) {
    const auto fabric =
        clos({.leaves = 2, .spines = 1, .hosts = 16, .rate_bps = 100'000'000'000, .queue_bytes = 200'000});
    Snapshot snapshot{.fabric = &fabric};
    for (uint32_t host = 0; host < flows; ++host)
      snapshot.flows.push_back(demand(fabric, host + 1, host, host + 8, 234'000'000));
    const Plan plan = plan_checked(snapshot);
    for (uint32_t flow = 0; flow < flows; ++flow) CHECK(plan.flows[flow].release_offset_ns == flow * 16'000 / flows);
  }
}

TEST_CASE(
    "waiting for others to start costs a hundredth at most, however deep the queues and long the chains of links") {
  auto fabric = clos({.leaves = 8, .spines = 8, .hosts = 64, .rate_bps = 400'000'000'000, .queue_bytes = 64'000'000});
  Snapshot snapshot{.fabric = &fabric, .flows = ring(fabric, interleaved(64, 8), 10'000'000)};
  for (uint32_t leaf = 1; leaf <= 8; ++leaf) set_cable(fabric, fmt::format("leaf{}", leaf), "spine1", false);
  for (FlowDemand& flow : snapshot.flows) flow.subflows = 4;
  const Plan plan = plan_checked(snapshot);
  std::set<uint64_t> offsets;
  for (const FlowAssignment& flow : plan.flows) {
    CHECK(flow.release_offset_ns * 100 <= plan.max_drain_ns);
    offsets.insert(flow.release_offset_ns);
  }
  CHECK(offsets.size() >= 8);  // without that bound the last would start after 1.4 hundredths
}

TEST_CASE("starts come closer only where chains of shared links join them") {
  // Leaf 1 sends to leaf 2 over a spine of their own; the others' starts would come too late.
  auto fabric = clos({.leaves = 10, .spines = 8, .hosts = 80, .rate_bps = 1'000'000'000, .queue_bytes = 64'000'000});
  const fabric::Path across = fabric.paths(fabric.nics()[0], fabric.nics()[8]).front();
  const std::string own = fabric.node(fabric.link(across[1]).to).name;
  for (uint32_t leaf = 3; leaf <= 10; ++leaf) set_cable(fabric, fmt::format("leaf{}", leaf), own, false);
  for (const bool others : {false, true}) {
    Snapshot snapshot{.fabric = &fabric};
    for (uint32_t host = 0; host < 4; ++host) {
      snapshot.flows.push_back(demand(fabric, host + 1, host, host + 8, 4'000'000));
      const auto uplink = [&](uint32_t of) { return fabric.nics()[of].uplink; };
      snapshot.flows.back().fixed = {uplink(host), across[1], across[2], fabric.link(uplink(host + 8)).reverse};
    }
    for (uint32_t host = 16; others && host < 80; ++host) {
      snapshot.flows.push_back(demand(fabric, host + 1, host, host < 72 ? host + 8 : host - 56, 40'000'000));
      snapshot.flows.back().subflows = 4;
    }
    const Plan plan = plan_checked(snapshot);
    // 16 MB at 1 Gbit/s drain in 128 ms: a quarter of a hundredth of that apart.
    for (uint32_t flow = 0; flow < 4; ++flow) CHECK(plan.flows[flow].release_offset_ns == flow * 320'000);
  }
}

TEST_CASE("bounds of the stagger step hold") {
  const auto fabric = clos({.leaves = 2, .spines = 1, .hosts = 8, .rate_bps = 100'000'000'000, .queue_bytes = 200'000});
  Snapshot snapshot{.fabric = &fabric};
  for (uint32_t host = 0; host < 2; ++host)
    snapshot.flows.push_back(demand(fabric, host + 1, host, host + 4, 234'000'000));
  CHECK(plan_checked(snapshot).flows[1].release_offset_ns == 8'000);
  snapshot.options.max_stagger_ns = 5'000;
  CHECK(plan_checked(snapshot).flows[1].release_offset_ns == 5'000);
  snapshot.options = {.min_stagger_ns = 12'000};
  CHECK(plan_checked(snapshot).flows[1].release_offset_ns == 12'000);
}
