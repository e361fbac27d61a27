#include <catch2/catch.hpp>

#include "controller/planner/planner.h"
#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

namespace {

std::string explained(const Snapshot& snapshot, uint64_t flow_id) {
  const Plan plan = plan_checked(snapshot);
  const auto sentences = explain(snapshot, plan, flow_id);
  REQUIRE(sentences);
  std::string text;
  for (const std::string& sentence : *sentences) {
    CHECK(sentence.back() == '.');
    text += sentence + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("an explanation names the path, the alternatives, the backup and the proof") {
  const auto fabric = clos({});
  const Snapshot snapshot{.fabric = &fabric, .flows = ring(fabric, interleaved(16, 4), 1'000'000)};
  const std::string text = explained(snapshot, 1);
  CHECK_THAT(text, Catch::Contains("sends 1000000 bytes per round to"));
  CHECK_THAT(text, Catch::Contains("Its path is "));
  CHECK_THAT(
      text, Catch::Contains("4 paths are usable") && Catch::Contains("80.0 ms (taken)") && Catch::Contains("160.0 ms"));
  CHECK_THAT(text, Catch::Contains("may start at once and unpaced"));
  CHECK_THAT(text, Catch::Contains("If a link of its path fails, it goes by "));
  CHECK_THAT(text, Catch::Contains("edge colouring") && Catch::Contains("no assignment can do better"));
}

TEST_CASE("an explanation says why a flow shares a link, and how it starts then") {
  const auto fabric = clos({.leaves = 2, .spines = 1, .hosts = 4});
  const Snapshot snapshot{.fabric = &fabric, .flows = {demand(fabric, 1, 0, 2, 1000), demand(fabric, 2, 1, 3, 1000)}};
  CHECK_THAT(explained(snapshot, 2), Catch::Contains("with 1 other flow of its phase: it starts 10.5 ms after") ||
                                         Catch::Contains("paced to 50.0 Mbit/s"));
  CHECK_THAT(explained(snapshot, 2),
             Catch::Contains("No other path is usable") && Catch::Contains("It has no backup path"));
}

TEST_CASE("an explanation says which link leaves a flow without a path") {
  auto fabric = clos({});
  fabric.set_link_drained(fabric.nics()[3].uplink, true);
  const Snapshot snapshot{.fabric = &fabric, .flows = {demand(fabric, 1, 3, 9, 1000), demand(fabric, 2, 4, 4, 1000)}};
  CHECK_THAT(explained(snapshot, 1),
             Catch::Contains(fabric.link_name(fabric.nics()[3].uplink) + " is down or drained"));
  CHECK_THAT(explained(snapshot, 2), Catch::Contains("Both ends are one NIC"));
}

TEST_CASE("a flow that is not in the plan is reported as such") {
  const auto fabric = clos({});
  const Snapshot snapshot{.fabric = &fabric, .flows = {demand(fabric, 1, 3, 9, 1000)}};
  const Plan plan = plan_checked(snapshot);
  const auto missing = explain(snapshot, plan, 2);
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(explain({.fabric = &fabric}, plan, 1).error().code == ErrorCode::kInvalidArgument);
}
