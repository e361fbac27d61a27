// Jobs of unequal size that are not in step: small ones are planned as carefully as large ones.
#include "controller/planner/teams.h"

#include <catch2/catch.hpp>

#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

namespace {

constexpr uint64_t kLarge = 400'000'000, kSmall = 1'000'000;

FlowDemand of_job(uint64_t comm_id, FlowDemand demand) {
  demand.comm_id = comm_id;
  return demand;
}

std::set<fabric::LinkId> core_of(const FlowAssignment& flow) {
  return {flow.path.begin() + 1, flow.path.end() - 1};
}

bool meet(const FlowAssignment& a, const FlowAssignment& b) {
  const std::set<fabric::LinkId> links = core_of(a);
  return std::any_of(b.path.begin(), b.path.end(), [&](fabric::LinkId link) { return links.contains(link); });
}

// Two leaves of four hosts. One job sends from its host to the other in four flows; two jobs send one small flow each.
Snapshot three_jobs(const fabric::Graph& fabric) {
  Snapshot snapshot{.fabric = &fabric, .flows = {}, .options = {}};
  for (uint64_t id = 1; id <= 4; ++id) snapshot.flows.push_back(of_job(1, demand(fabric, id, 0, 4, kLarge / 4)));
  snapshot.flows.push_back(of_job(2, demand(fabric, 5, 1, 5, kSmall)));
  snapshot.flows.push_back(of_job(3, demand(fabric, 6, 2, 6, kSmall)));
  return snapshot;
}

uint32_t meetings_of_small_jobs(const Plan& plan) {
  uint32_t meetings = 0;
  for (const size_t small : {4u, 5u})
    for (size_t other = 0; other < plan.flows.size(); ++other)
      meetings += other != small && meet(plan.flows[small], plan.flows[other]);
  return meetings;
}

}  // namespace

TEST_CASE("small jobs get links to themselves where a large one has others, at no cost for it") {
  const fabric::Graph fabric = clos({.leaves = 2, .spines = 4, .hosts = 8});
  const Plan plan = plan_checked(three_jobs(fabric));
  CHECK(plan.optimal());
  CHECK(meetings_of_small_jobs(plan) == 0);
}

TEST_CASE("what does not repeat weighs its bytes, however few") {
  const fabric::Graph fabric = clos({.leaves = 2, .spines = 4, .hosts = 8});
  Snapshot snapshot = three_jobs(fabric);
  for (FlowDemand& flow : snapshot.flows) flow.comm_id = 0;
  CoreTable table(fabric);
  const auto flows = resolve(snapshot, table).value();
  CHECK(Teams(fabric, flows).weights(std::vector<uint32_t>{0, 1, 2, 3, 4, 5}).empty());
}

TEST_CASE(
    "a team's weight makes its busiest NIC count as long as the longest, and flows that share NICs are one team") {
  const fabric::Graph fabric = clos({.leaves = 2, .spines = 4, .hosts = 8});
  Snapshot snapshot = three_jobs(fabric);
  snapshot.flows.push_back(of_job(4, demand(fabric, 7, 5, 2, kSmall)));  // joins the small jobs' hosts
  CoreTable table(fabric);
  const auto flows = resolve(snapshot, table).value();
  const Teams teams(fabric, flows);
  const auto weights = teams.weights(std::vector<uint32_t>{0, 4, 5, 6});
  REQUIRE(weights.size() == 4);
  CHECK(weights[0] == Approx(1));
  for (const size_t small : {1u, 2u, 3u}) CHECK(weights[small] == Approx(double(kLarge / 4) / kSmall));
  CHECK(teams.weights(std::vector<uint32_t>{4, 5, 6}).empty());
}

TEST_CASE("fairness costs the busiest link one per cent at most") {
  Random random(7);
  for (int attempt = 0; attempt < 60; ++attempt) {
    const fabric::Graph fabric = clos({.leaves = 4, .spines = 2 + random.below(3), .hosts = 16});
    Snapshot snapshot{.fabric = &fabric, .flows = {}, .options = {}};
    const std::vector<uint32_t> hosts = random.permutation(16);
    for (uint32_t job = 0; job < 4; ++job) {
      const uint64_t bytes = 1'000'000ull << (2 * job);
      for (uint32_t i = 0; i < 4; ++i)
        for (uint32_t step = 1; step <= 1 + job % 2; ++step)
          snapshot.flows.push_back(of_job(job + 1, demand(fabric, snapshot.flows.size() + 1, hosts[4 * job + i],
                                                          hosts[4 * job + (i + step) % 4], bytes)));
    }
    const uint64_t fair = plan_checked(snapshot).max_drain_ns;
    for (FlowDemand& flow : snapshot.flows) flow.comm_id = 0;
    CHECK(fair <= plan_checked(snapshot).max_drain_ns * 101 / 100);
  }
}

TEST_CASE("starts are kept apart within a team only, as teams are not in step") {
  const fabric::Graph fabric = clos({.leaves = 2, .spines = 1, .hosts = 4});
  Snapshot snapshot{.fabric = &fabric, .flows = {}, .options = {}};
  snapshot.flows = {of_job(1, demand(fabric, 1, 0, 2, kLarge)), of_job(2, demand(fabric, 2, 1, 3, kLarge))};
  const auto last_offset = [&] {
    const Plan plan = plan_checked(snapshot);
    return std::max(plan.flows[0].release_offset_ns, plan.flows[1].release_offset_ns);
  };
  CHECK(last_offset() == 0);
  snapshot.flows[1].comm_id = 1;
  CHECK(last_offset() > 0);
}

TEST_CASE("flows are split where a small job needs it, though the large one does not") {
  const fabric::Graph fabric = clos({.leaves = 2, .spines = 2, .hosts = 6});
  // Three hosts on two uplinks: two large flows fill both, and a third of a small job meets one of them.
  Snapshot snapshot{.fabric = &fabric, .flows = {}, .options = {}};
  snapshot.flows = {of_job(1, demand(fabric, 1, 0, 3, kLarge)), of_job(1, demand(fabric, 2, 1, 4, kLarge)),
                    of_job(2, demand(fabric, 3, 2, 5, kSmall))};
  const uint32_t apart = least_subflows(snapshot, 32).value();
  for (FlowDemand& flow : snapshot.flows) flow.comm_id = 0;
  CHECK(least_subflows(snapshot, 32).value() == 1);
  CHECK(apart == 2);
}
