#include "controller/planner/search.h"

#include <catch2/catch.hpp>

#include "controller/planner/bounds.h"
#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

namespace {

// The problem of the movable flows of one phase, as plan() poses it.
struct Posed {
  CoreTable table;
  std::vector<ResolvedFlow> flows;
  Problem problem;
  explicit Posed(const Snapshot& snapshot) : table(*snapshot.fabric) {
    flows = *resolve(snapshot, table);
    problem = {.fabric = snapshot.fabric, .fixed_bytes = std::vector<uint64_t>(snapshot.fabric->links().size())};
    for (const ResolvedFlow& flow : flows)
      problem.items.push_back({flow.demand->bytes, flow.src->uplink, flow.down, flow.cores, flow.current});
  }
};

}  // namespace

TEST_CASE("local search alone reaches the optimum for permutations between leaves") {
  const auto fabric = clos({.leaves = 4, .spines = 4, .hosts = 16});
  Random random(21);
  uint32_t proven = 0;
  for (int round = 0; round < 50; ++round) {
    Posed posed({.fabric = &fabric, .flows = ring(fabric, random.permutation(16), 1'000'000)});
    Search search(posed.problem);
    search.place_rest();
    const uint64_t bound = lower_bound_ns(posed.problem);
    search.lower_maximum(bound);
    proven += search.max_drain_ns() == bound;
    CHECK(search.max_drain_ns() <= 2 * bound);
  }
  CHECK(proven >= 45);
}

TEST_CASE("local search never worsens what greedy found, and keeps its own books") {
  const auto fabric = clos({.leaves = 4, .spines = 3, .hosts = 16});
  Random random(22);
  for (int round = 0; round < 100; ++round) {
    Snapshot snapshot{.fabric = &fabric};
    for (uint32_t flow = 0; flow < 24; ++flow) {
      const uint32_t src = random.below(16);
      snapshot.flows.push_back(
          demand(fabric, flow, src, (src + 4 + random.below(8)) % 16, 1000 + random.below(100'000)));
    }
    Posed posed(snapshot);
    Search search(posed.problem);
    search.place_rest();
    const uint64_t greedy = search.max_drain_ns();
    search.lower_maximum(0);
    const uint64_t lowered = search.max_drain_ns();
    REQUIRE(lowered <= greedy);
    search.even_out();
    REQUIRE(search.max_drain_ns() <= lowered);
    REQUIRE(max_drain_ns(fabric, load_of(posed.problem, search.choice())) == search.max_drain_ns());
  }
}
