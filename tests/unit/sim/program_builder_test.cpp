#include "tools/sim/model/program_builder.h"

#include <catch2/catch.hpp>

#include "tests/unit/sim/fixtures.h"

namespace orrery::sim {

TEST_CASE("messages are grouped by queue pair in the order they were added, and keep their numbers") {
  const auto graph = leaf_spine(2, 2, 4);
  ProgramBuilder builder(graph);
  const auto path = [&](uint32_t a, uint32_t b) { return graph.paths(graph.nics()[a], graph.nics()[b]).front(); };
  const uint32_t first = builder.add_qp(0, 2, {path(0, 2)}), second = builder.add_qp(1, 3, {path(1, 3)});
  for (uint64_t bytes = 1; bytes <= 6; ++bytes) builder.add_message(bytes % 2 ? first : second, bytes);
  const Program program = builder.build().value();
  CHECK(program.qp_messages == std::vector<uint32_t>{0, 2, 4, 1, 3, 5});
  CHECK(program.qps[second].first_message == 3);
  CHECK(program.messages[3].bytes == 4);
}

TEST_CASE("equal paths are stored once") {
  const auto graph = leaf_spine(2, 2, 4);
  ProgramBuilder builder(graph);
  const auto paths = graph.paths(graph.nics()[0], graph.nics()[2]);
  REQUIRE(paths.size() == 2);
  const uint32_t one = builder.add_path(paths[0]);
  CHECK(builder.add_path(paths[1]) != one);
  CHECK(builder.add_path(paths[0]) == one);
}

TEST_CASE("a step that follows what happens on another host is refused with its name") {
  const auto graph = leaf_spine(2, 2, 4);
  ProgramBuilder builder(graph);
  const uint32_t message =
      builder.add_message(builder.add_qp(0, 2, {graph.paths(graph.nics()[0], graph.nics()[2]).front()}), 1);
  const uint32_t send = builder.add_send_step(message);
  SECTION("a delivery") {
    builder.after_delivered(message, builder.add_step(0, 1));
    CHECK(
        builder.build().error().message ==
        "step 1 follows the delivery of message 0, which ends on host 2, but is on host 0: put a message between them");
  }
  SECTION("an acknowledgement") {
    builder.after_acknowledged(message, builder.add_step(2, 1));
    CHECK_FALSE(builder.build());
  }
  SECTION("a step") {
    builder.after_step(send, builder.add_step(3, 1));
    CHECK_FALSE(builder.build());
  }
}

}  // namespace orrery::sim
