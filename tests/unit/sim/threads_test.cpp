// Threads of the packet engine: the same result, bit for bit, whatever their number.
#include <catch2/catch.hpp>

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/packet/meeting.h"

namespace orrery::sim {
namespace {

// What switches and hosts do to each other is at its busiest: marks, pauses, rate cuts.
PacketConfig shallow() {
  PacketConfig config;
  config.ecn.kmin_bytes = 20'000;
  config.ecn.kmax_bytes = 200'000;
  config.pfc.xoff_bytes = 100'000;
  config.pfc.xon_bytes = 90'000;
  return config;
}

PacketConfig lossy() {
  PacketConfig config = shallow();
  config.pfc.enabled = false;
  config.switches.port_limit_bytes = 60'000;
  return config;
}

PacketConfig sprayed() {
  PacketConfig config = lossy();
  config.transport.recovery = Recovery::kSelectiveRepeat;
  config.transport.reorder_packets = 50;
  config.telemetry.sample_every = 3;
  config.switches.cut_through = true;
  return config;
}

Program all_paths(const fabric::Graph& graph, PathPolicy policy) {
  const auto to = random_derangement(static_cast<uint32_t>(graph.nics().size()), 3);
  ProgramBuilder builder(graph);
  for (uint32_t host = 0; host < to.size(); ++host) {
    const auto paths = graph.paths(graph.nics()[host], graph.nics()[to[host]]);
    const uint32_t qp = builder.add_qp(host, to[host], paths, policy);
    uint32_t before = kNone;
    for (int i = 0; i < 2; ++i) {
      const uint32_t message = builder.add_message(qp, 150'000 + host);
      const uint32_t step = builder.add_send_step(message, host);
      if (before != kNone) builder.after_acknowledged(before, step);
      before = message;
    }
  }
  return builder.build().value();
}

void check_same(const RunResult& a, const RunResult& b) {
  CHECK(a.delivered_at == b.delivered_at);
  CHECK(a.released_at == b.released_at);
  CHECK(a.step_done_at == b.step_done_at);
  CHECK(a.end == b.end);
  CHECK(a.totals.hops == b.totals.hops);
  CHECK(a.totals.data_hops == b.totals.data_hops);
  CHECK(a.totals.drops == b.totals.drops);
  CHECK(a.totals.marks == b.totals.marks);
  CHECK(a.totals.pauses == b.totals.pauses);
  CHECK(a.totals.cnps == b.totals.cnps);
  CHECK(a.totals.retransmitted == b.totals.retransmitted);
  CHECK(a.totals.path_changes == b.totals.path_changes);
  REQUIRE(a.links.size() == b.links.size());
  for (size_t link = 0; link < a.links.size(); ++link) {
    INFO("link " << link);
    REQUIRE(a.links[link].sent_bytes == b.links[link].sent_bytes);
    REQUIRE(a.links[link].max_queued_bytes == b.links[link].max_queued_bytes);
    REQUIRE(a.links[link].drops == b.links[link].drops);
    REQUIRE(a.links[link].marks == b.links[link].marks);
    REQUIRE(a.links[link].paused_time == b.links[link].paused_time);
  }
}

RunResult check_threads(const fabric::Graph& graph, const Program& program, PacketConfig config) {
  RunResult alone = run_packets(graph, program, config);
  for (const uint32_t threads : {2u, 3u, 7u}) {
    INFO(threads << " threads");
    config.threads = threads;
    check_same(run_packets(graph, program, config), alone);
  }
  return alone;
}

}  // namespace

TEST_CASE("the number of threads changes nothing: marks, pauses, rates") {
  const auto graph = leaf_spine(8, 4, 64);
  const Program program = permutation(graph, random_derangement(64, 3), 250'000, 5);
  const RunResult result = check_threads(graph, program, shallow());
  CHECK(result.totals.marks > 0);
  CHECK(result.totals.pauses > 0);
  CHECK(result.totals.cnps > 0);
}

TEST_CASE("the number of threads changes nothing: drops, and a link that fails and returns") {
  const auto graph = leaf_spine(8, 4, 64);
  const Program program = all_paths(graph, PathPolicy::kStatic);
  PacketConfig config = lossy();
  const uint32_t uplink = program.paths[program.qp_paths[program.qps[0].first_path]].links[1];
  config.faults = {{20 * kPerUs, uplink, false}, {400 * kPerUs, uplink, true}};
  config.fault_detection = 100 * kPerUs;
  config.transport.retransmit_timeout = 200 * kPerUs;
  const RunResult result = check_threads(graph, program, config);
  CHECK(result.totals.drops > 0);
  CHECK(result.totals.path_changes > 0);
  CHECK(result.totals.delivered_messages == 128);
}

TEST_CASE("the number of threads changes nothing: sprayed, out of order, cut through") {
  const auto graph = leaf_spine(8, 4, 64);
  const RunResult result = check_threads(graph, all_paths(graph, PathPolicy::kRecycle), sprayed());
  CHECK(result.totals.path_changes > 0);
  CHECK(result.totals.retransmitted > 0);
}

TEST_CASE("a meeting tells everybody the earliest time, round after round") {
  constexpr uint32_t kThreads = 3, kRounds = 2'000;
  Meeting meeting(kThreads);
  std::vector<uint32_t> wrong(kThreads);
  std::vector<uint64_t> most(kThreads);
  const auto attend = [&](uint32_t self) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Time earliest = meeting.meet(self, 10 * round + (self + round) % kThreads, {.events = round});
      wrong[self] += earliest != 10 * round;
      most[self] = meeting.pulse(self, 0).events;
    }
  };
  std::vector<std::thread> others;
  for (uint32_t i = 1; i < kThreads; ++i) others.emplace_back(attend, i);
  attend(0);
  for (std::thread& other : others) other.join();
  CHECK(wrong == std::vector<uint32_t>(kThreads, 0));
  CHECK(most == std::vector<uint64_t>(kThreads, kThreads * (kRounds - 1)));
}

}  // namespace orrery::sim
