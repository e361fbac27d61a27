#include "controller/planner/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "controller/planner/problem.h"
#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

namespace {

// Every host of each group to every other of it.
std::vector<FlowDemand> all_to_all(const fabric::Graph& fabric, const std::vector<std::vector<uint32_t>>& groups,
                                   uint64_t bytes) {
  std::vector<FlowDemand> flows;
  for (const auto& group : groups)
    for (uint32_t src : group)
      for (uint32_t dst : group) {
        if (src == dst) continue;
        flows.push_back(demand(fabric, flows.size() + 1, src, dst, bytes));
        flows.back().exchange = true;
      }
  return flows;
}

uint32_t count_of(const std::vector<uint32_t>& rounds) {
  return rounds.empty() ? 0 : *std::max_element(rounds.begin(), rounds.end()) + 1;
}

bool are_matchings(const std::vector<ExchangeFlow>& flows, const std::vector<uint32_t>& rounds) {
  std::set<std::pair<uint32_t, fabric::LinkId>> sends, receives;
  for (size_t i = 0; i < flows.size(); ++i)
    if (!sends.insert({rounds[i], flows[i].up}).second || !receives.insert({rounds[i], flows[i].down}).second)
      return false;
  return true;
}

// No link carries two flows (or flows of two subflows each, ...) of one round.
bool collide_in_a_round(const Plan& plan) {
  std::map<uint32_t, std::map<fabric::LinkId, uint64_t>> users;
  for (const FlowAssignment& flow : plan.flows) {
    for (fabric::LinkId link : flow.path)
      if (!users[flow.round].try_emplace(link, flow.flow_id).second) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("flows of equal size take as many rounds as the busiest NIC has flows, and no NIC is in a round twice") {
  Random random(61);
  for (int run = 0; run < 100; ++run) {
    std::vector<ExchangeFlow> flows;
    std::map<uint32_t, uint32_t> out, in;
    uint32_t degree = 0;
    for (uint32_t i = random.below(120); i > 0; --i) {
      const uint32_t up = random.below(9), down = random.below(9);
      flows.push_back({up, down, 1000});
      degree = std::max({degree, ++out[up], ++in[down]});
    }
    const auto rounds = rounds_of(flows);
    REQUIRE(are_matchings(flows, rounds));
    REQUIRE(count_of(rounds) == degree);
  }
}

TEST_CASE("flows of unequal size: the largest first and together, in not more time than by number alone") {
  Random random(62);
  for (int run = 0; run < 100; ++run) {
    std::vector<ExchangeFlow> flows;
    std::map<uint32_t, uint64_t> out, in;
    uint64_t busiest = 0;
    for (uint32_t up = 0; up < 8; ++up)
      for (uint32_t down = 0; down < 8; ++down) {
        if (up == down) continue;
        const uint64_t bytes = random.below(4) == 0 ? 900 + random.below(100) : 100 + random.below(20);
        flows.push_back({up, down, bytes});
        busiest = std::max({busiest, out[up] += bytes, in[down] += bytes});
      }
    std::sort(flows.begin(), flows.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    const auto rounds = rounds_of(flows);
    REQUIRE(are_matchings(flows, rounds));
    std::vector<uint64_t> longest(count_of(rounds));
    for (size_t i = 0; i < flows.size(); ++i) longest[rounds[i]] = std::max(longest[rounds[i]], flows[i].bytes);
    uint64_t sum = 0;
    for (uint64_t bytes : longest) sum += bytes;
    REQUIRE(std::is_sorted(longest.rbegin(), longest.rend()));
    REQUIRE(sum >= busiest);
    REQUIRE(sum <= 2 * busiest);
  }
}

TEST_CASE("an all-to-all goes in collision-free rounds that take no longer than its NICs need") {
  const auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
  const Plan plan = plan_checked({.fabric = &fabric, .flows = all_to_all(fabric, {interleaved(16, 4)}, 1'000'000)});
  CHECK(plan.rounds == 15);
  CHECK(plan.optimal());
  CHECK(plan.max_drain_ns == 15 * 80'000'000ull);
  CHECK_FALSE(collide_in_a_round(plan));
  for (const FlowAssignment& flow : plan.flows) {
    CHECK(flow.release_offset_ns == flow.round * 83'200'000ull);  // 4 % for headers
    CHECK(flow.pace_bps == 0);
  }
}

TEST_CASE("groups that exchange at the same time share the rounds") {
  const auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
  std::vector<std::vector<uint32_t>> groups(4);
  for (uint32_t host = 0; host < 16; ++host) groups[host % 4].push_back(host);
  const Plan plan = plan_checked({.fabric = &fabric, .flows = all_to_all(fabric, groups, 1'000'000)});
  CHECK(plan.rounds == 3);
  CHECK(plan.optimal());
  CHECK_FALSE(collide_in_a_round(plan));
}

TEST_CASE("rounds never oversubscribe a link, on random many-to-many traffic over degraded fabrics") {
  Random random(63);
  for (int run = 0; run < 40; ++run) {
    auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
    if (run % 2 != 0) set_cable(fabric, "leaf2", "spine3", false);
    Snapshot snapshot{.fabric = &fabric};
    for (uint32_t i = 0; i < 60; ++i) {
      const uint32_t src = random.below(16);
      snapshot.flows.push_back(demand(fabric, i + 1, src, (src + 1 + random.below(15)) % 16, 800'000));
      snapshot.flows.back().exchange = true;
      snapshot.flows.back().subflows = 1 + 3 * (run % 2);
    }
    const Plan plan = plan_checked(snapshot);
    if (plan.rounds == 0) continue;
    std::map<uint32_t, std::set<fabric::LinkId>> senders, receivers;
    std::map<std::pair<uint32_t, fabric::LinkId>, uint64_t> paces;
    for (const FlowAssignment& flow : plan.flows) {
      REQUIRE(senders[flow.round].insert(flow.path.front()).second);
      REQUIRE(receivers[flow.round].insert(flow.path.back()).second);
      flow.each_path([&](const fabric::Path& path) {
        for (const auto id : path)
          paces[{flow.round, id}] +=
              (flow.pace_bps == 0 ? fabric.link(id).rate_bps : flow.pace_bps) / (flow.others.size() + 1);
      });
    }
    for (const auto& [where, pace] : paces) REQUIRE(pace <= fabric.link(where.second).rate_bps);
  }
}

TEST_CASE("rounds that would begin too late, or take too long, are not made: all start at once and paced") {
  const auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
  Snapshot snapshot{.fabric = &fabric, .flows = all_to_all(fabric, {interleaved(16, 4)}, 1'000'000)};
  snapshot.options.max_offset_ns = 1'000'000'000;
  const auto together = [](const Plan& plan) {
    return plan.rounds == 0 && std::all_of(plan.flows.begin(), plan.flows.end(), [](const FlowAssignment& flow) {
             return flow.round == 0 && flow.pace_bps > 0;
           });
  };
  CHECK(together(plan_checked(snapshot)));
  snapshot.options.max_offset_ns = 14 * 83'200'000ull;
  CHECK(plan_checked(snapshot).rounds == 15);
  snapshot.options.rounds = false;
  CHECK(together(plan_checked(snapshot)));
  snapshot.options.rounds = true;
  // One flow much larger than the others, and each round as long as its largest.
  Random random(64);
  for (FlowDemand& flow : snapshot.flows) flow.bytes = 1000 + random.below(1'000'000);
  CHECK(together(plan_checked(snapshot)));
}

TEST_CASE("flows beside an exchange are planned with it, and count in its bound") {
  const auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
  Snapshot snapshot{.fabric = &fabric, .flows = all_to_all(fabric, {interleaved(16, 4)}, 1'000'000)};
  for (FlowDemand flow : ring(fabric, interleaved(16, 4), 3'000'000)) {
    flow.flow_id += 1000;
    snapshot.flows.push_back(flow);
  }
  const auto result = plan(snapshot);
  REQUIRE(result);
  CHECK(result->rounds == 15);
  CHECK(result->lower_bound_ns == 18 * 80'000'000ull);
  CHECK(result->max_drain_ns <= result->lower_bound_ns * 11 / 10);
  std::vector<uint64_t> paces(fabric.links().size());
  for (const FlowAssignment& flow : result->flows)
    if (flow.round == 0)
      for (auto id : flow.path) paces[id] += flow.pace_bps;
  for (size_t id = 0; id < paces.size(); ++id)
    CHECK(paces[id] <= fabric.link(static_cast<fabric::LinkId>(id)).rate_bps);
}

TEST_CASE("with a failed spine, subflows bring each round near the proportional ideal") {
  auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
  for (const char* leaf : {"leaf1", "leaf2", "leaf3", "leaf4"}) set_cable(fabric, leaf, "spine2", false);
  // Only to hosts on other leaves, so that every round fills the uplinks.
  Snapshot snapshot{.fabric = &fabric};
  for (uint32_t src = 0; src < 16; ++src)
    for (uint32_t dst = 0; dst < 16; ++dst) {
      if (fabric.link(fabric.nics()[src].uplink).to == fabric.link(fabric.nics()[dst].uplink).to) continue;
      snapshot.flows.push_back(demand(fabric, snapshot.flows.size() + 1, src, dst, 1'200'000));
      snapshot.flows.back().exchange = true;
    }
  const uint32_t subflows = *least_subflows(snapshot, 64);
  CHECK(subflows > 1);
  for (FlowDemand& flow : snapshot.flows) flow.subflows = subflows;
  const Plan plan = plan_checked(snapshot);
  CHECK(plan.rounds == 12);
  CHECK(plan.max_drain_ns * 100 <= plan.fluid_bound_ns * 105);
}
