#include "controller/planner/plan_cache.h"

#include <catch2/catch.hpp>

#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

TEST_CASE("an unchanged snapshot is looked up, a changed one is planned") {
  auto fabric = clos({});
  Snapshot snapshot{.fabric = &fabric, .flows = ring(fabric, interleaved(16, 4), 1'000'000)};
  PlanCache cache;
  const auto first = cache.plan(snapshot);
  REQUIRE(first);
  CHECK(*cache.plan(snapshot) == *first);
  CHECK(cache.hits() == 1);
  fabric.set_link_up((*first)->flows[0].path[1], false);
  const auto second = cache.plan(snapshot);
  REQUIRE(second);
  CHECK((*second)->flows[0].path != (*first)->flows[0].path);
  CHECK(cache.misses() == 2);
}

TEST_CASE("every input of a plan changes the signature") {
  auto fabric = clos({});
  const Snapshot base{.fabric = &fabric, .flows = ring(fabric, interleaved(16, 4), 1'000'000)};
  std::vector<Snapshot> changed(14, base);
  changed[0].flows[3].bytes += 1;
  changed[1].flows[3].phase = 1;
  changed[2].flows[3].dst = address(fabric, 7);
  changed[3].flows[3].current = {1};
  changed[4].flows[3].fixed = {1};
  changed[5].options.backups = 2;
  changed[6].options.stagger = false;
  changed[7].options.move_penalty_percent = 5;
  changed[8].flows.pop_back();
  changed[9].flows[3].comm_id += 1;
  changed[10].options.min_stagger_ns = 1;
  changed[11].options.max_stagger_ns = 1;
  changed[12].flows[3].collectives = 2;
  changed[13].flows[3].in_step = false;
  for (const Snapshot& other : changed) CHECK((signature(other) != signature(base)));
  const std::string before = signature(base);
  fabric.set_link_drained(5, true);
  CHECK((signature(base) != before));
}

TEST_CASE("the cache forgets the plan not used for longest") {
  const auto fabric = clos({});
  PlanCache cache(2);
  const auto use = [&](uint64_t bytes) {
    REQUIRE(cache.plan({.fabric = &fabric, .flows = ring(fabric, {0, 4, 8}, bytes)}));
  };
  use(1);
  use(2);
  use(1);
  use(3);  // 2 goes
  use(1);
  CHECK(cache.misses() == 3);
  use(2);
  CHECK(cache.misses() == 4);
  CHECK(cache.hits() == 2);
}

TEST_CASE("a snapshot that cannot be planned is an error each time") {
  const auto fabric = clos({});
  PlanCache cache;
  const Snapshot bad{.fabric = &fabric, .flows = {{.flow_id = 1}}};
  CHECK(!cache.plan(bad));
  CHECK(!cache.plan(bad));
  CHECK(cache.hits() == 0);
}

TEST_CASE("large snapshots are kept in smaller number") {
  const auto fabric = clos({});
  PlanCache cache;
  std::vector<FlowDemand> flows;
  for (uint32_t flow = 0; flow < 150'000; ++flow) flows.push_back(demand(fabric, flow, 0, 9, 1));
  for (uint64_t bytes : {1, 2, 3, 4, 5, 1}) {
    flows[0].bytes = bytes;
    REQUIRE(cache.plan({.fabric = &fabric, .flows = flows}));
  }
  CHECK(cache.hits() == 0);
  REQUIRE(cache.plan({.fabric = &fabric, .flows = flows}));
  CHECK(cache.hits() == 1);
}
