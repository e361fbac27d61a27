// When a switch pauses, and what its ports share.
#include <catch2/catch.hpp>

#include "tests/unit/sim/fixtures.h"

namespace orrery::sim {
namespace {

constexpr uint32_t kPackets = 100;  // of each sender
constexpr uint64_t kWire = 4'064;

struct Pair {
  uint32_t src, dst;
};

// All at once and at line rate.
RunResult send(const std::vector<Pair>& pairs, const PacketConfig& config) {
  const auto graph = leaf_spine(1, 1, 8);
  ProgramBuilder builder(graph);
  for (const auto& [src, dst] : pairs) {
    const uint32_t qp = builder.add_qp(src, dst, {graph.paths(graph.nics()[src], graph.nics()[dst]).front()});
    builder.add_send_step(builder.add_message(qp, kPackets * 4'000));
  }
  return run_packets(graph, builder.build().value(), config);
}

}  // namespace

// Of 200 packets that come in 100 times the time of one, half have left again: 50 of each sender wait at most.
TEST_CASE("a switch pauses a port when what came in by it and still waits passes the threshold, not before") {
  PacketConfig config = plain_config();
  config.pfc = {.xoff_bytes = 51 * kWire, .xon_bytes = 40 * kWire};
  CHECK(send({{1, 0}, {2, 0}}, config).totals.pauses == 0);
  config.pfc = {.xoff_bytes = 48 * kWire, .xon_bytes = 40 * kWire};
  const RunResult paused = send({{1, 0}, {2, 0}}, config);
  CHECK(paused.totals.pauses == 2);
  CHECK(paused.totals.drops == 0);
}

TEST_CASE("the ports of a switch share its buffer") {
  PacketConfig config = plain_config();
  config.pfc.enabled = false;
  config.switches.buffer_bytes = 150 * kWire;
  CHECK(send({{1, 0}, {2, 0}}, config).totals.drops == 0);
  CHECK(send({{3, 5}, {4, 5}}, config).totals.drops == 0);
  const RunResult both = send({{1, 0}, {2, 0}, {3, 5}, {4, 5}}, config);
  CHECK(both.totals.drops > 0);
  CHECK(both.totals.delivered_messages == 4);
}

TEST_CASE("a port's own limit holds also where the buffer has room") {
  PacketConfig config = plain_config();
  config.pfc.enabled = false;
  config.switches.port_limit_bytes = 60 * kWire;
  const RunResult result = send({{1, 0}, {2, 0}}, config);
  CHECK(result.totals.drops > 0);
  uint64_t deepest = 0;
  for (const LinkTotals& link : result.links) deepest = std::max(deepest, link.max_queued_bytes);
  CHECK(deepest == 60 * kWire);
}

}  // namespace orrery::sim
