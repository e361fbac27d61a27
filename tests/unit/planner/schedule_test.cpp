#include "controller/planner/schedule.h"

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

TEST_CASE("waiting for others to start costs little, however deep the queues and long the chains of shared links") {
  const auto fabric =
      clos({.leaves = 8, .spines = 4, .hosts = 128, .rate_bps = 400'000'000'000, .queue_bytes = 64'000'000});
  Snapshot snapshot{.fabric = &fabric, .flows = ring(fabric, interleaved(128, 8), 10'000'000)};
  for (FlowDemand& flow : snapshot.flows) flow.subflows = 4;
  const Plan plan = plan_checked(snapshot);
  for (const FlowAssignment& flow : plan.flows) CHECK(flow.release_offset_ns * 50 <= plan.max_drain_ns);
}
