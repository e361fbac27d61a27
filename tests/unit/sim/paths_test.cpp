// Senders with several paths, receivers that take what comes out of order, and links that fail.
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/sim/fixtures.h"

namespace orrery::sim {
namespace {

// Host 0 of the first leaf sends to the first host of the second; `others` more pairs of the same leaves beside it, all
// beginning on their first path.
struct Pairs {
  fabric::Graph graph = leaf_spine(2, 4, 8);
  Program program;

  Pairs(uint32_t pairs, uint64_t bytes, PathPolicy policy, uint32_t messages = 1) {
    ProgramBuilder builder(graph);
    for (uint32_t i = 0; i < pairs; ++i) {
      const uint32_t qp = builder.add_qp(i, 4 + i, graph.paths(graph.nics()[i], graph.nics()[4 + i]), policy);
      uint32_t before = kNone;
      for (uint32_t m = 0; m < messages; ++m) {
        const uint32_t message = builder.add_message(qp, bytes);
        const uint32_t step = builder.add_send_step(message, m == 0 ? 0 : 100 * kPerUs);
        if (before != kNone) builder.after_acknowledged(before, step);
        before = message;
      }
    }
    program = builder.build().value();
  }

  // Spine-bound links of the first leaf that carried anything.
  size_t uplinks_used(const RunResult& result) const {
    size_t used = 0;
    for (fabric::LinkId link = 0; link < graph.links().size(); ++link)
      used += graph.node(graph.link(link).from).name == "leaf1" && graph.node(graph.link(link).to).tier == 2 &&
              result.links[link].sent_bytes > 10'000;
    return used;
  }
};

PacketConfig reordering_config() {
  PacketConfig config = plain_config();
  config.transport.recovery = Recovery::kSelectiveRepeat;
  config.transport.reorder_packets = 1'000;
  return config;
}

}  // namespace

TEST_CASE("spraying uses every path and, where order does not matter, costs nothing") {
  const Pairs pairs(4, 4'000'000, PathPolicy::kSpray);
  const RunResult result = run_packets(pairs.graph, pairs.program, reordering_config());
  CHECK(pairs.uplinks_used(result) == 4);
  CHECK(result.totals.retransmitted == 0);
  CHECK(result.totals.delivered_bytes == 4 * 4'000'000);
  // Four hosts on four spines: nearly as if each were alone.
  CHECK(static_cast<double>(result.end) < 1.05 * (1'000 * kFullPacket + 4 * (kPerUs + kFullPacket)));
}

TEST_CASE("spraying to a receiver that goes back makes packets come again") {
  const Pairs pairs(4, 4'000'000, PathPolicy::kSpray);
  PacketConfig config = plain_config();
  config.propagation = 1 * kPerUs;
  const Program mixed = [&] {  // another load makes one of the paths longer
    ProgramBuilder builder(pairs.graph);
    for (uint32_t i = 0; i < 4; ++i) {
      const auto paths = pairs.graph.paths(pairs.graph.nics()[i], pairs.graph.nics()[4 + i]);
      builder.add_send_step(builder.add_message(builder.add_qp(i, 4 + i, paths, PathPolicy::kSpray), 2'000'000));
      builder.add_send_step(builder.add_message(
          builder.add_qp(
              i, 4 + (i + 1) % 4,
              {paths.size() == 4 ? pairs.graph.paths(pairs.graph.nics()[i], pairs.graph.nics()[4 + (i + 1) % 4])[0]
                                 : paths[0]}),
          2'000'000));
    }
    return builder.build().value();
  }();
  const RunResult strict = run_packets(pairs.graph, mixed, config);
  const RunResult tolerant = run_packets(pairs.graph, mixed, reordering_config());
  CHECK(strict.totals.delivered_messages == 8);
  CHECK(tolerant.totals.delivered_messages == 8);
  CHECK(strict.totals.retransmitted > 0);
  CHECK(tolerant.totals.retransmitted == 0);
}

TEST_CASE("what a selective receiver lost comes again by itself, alone") {
  const Pairs pairs(4, 4'000'000, PathPolicy::kStatic);  // all on one spine
  PacketConfig lossy = plain_config();
  lossy.pfc.enabled = false;
  lossy.switches.port_limit_bytes = 400'000;
  lossy.dcqcn.enabled = lossy.ecn.enabled = true;  // equal rates would lose all of some senders and nothing of another
  lossy.ecn.kmin_bytes = 50'000;
  lossy.ecn.kmax_bytes = 300'000;
  PacketConfig selective = lossy;
  selective.transport.recovery = Recovery::kSelectiveRepeat;
  const RunResult back = run_packets(pairs.graph, pairs.program, lossy);
  const RunResult picked = run_packets(pairs.graph, pairs.program, selective);
  for (const RunResult* result : {&back, &picked}) {
    CHECK(result->totals.drops > 0);
    CHECK(result->totals.delivered_messages == 4);
    CHECK(result->totals.delivered_bytes == 4 * 4'000'000);
  }
  CHECK(picked.totals.retransmitted < back.totals.retransmitted);
}

TEST_CASE("a sender leaves a dead link for another path when it has been told") {
  const Pairs pairs(1, 20'000'000, PathPolicy::kStatic);
  PacketConfig config = plain_config();
  const uint32_t uplink = pairs.program.paths[pairs.program.qp_paths[0]].links[1];
  config.faults = {{.at = 200 * kPerUs, .link = uplink, .up = false}};
  config.fault_detection = 1 * kPerMs;
  const RunResult result = run_packets(pairs.graph, pairs.program, config);
  CHECK(result.totals.drops > 0);
  CHECK(result.totals.delivered_messages == 1);
  CHECK(pairs.uplinks_used(result) == 2);
  CHECK(result.end > 1'200 * kPerUs);
  config.faults.push_back({.at = 300 * kPerUs, .link = uplink, .up = true});
  config.fault_detection = 10 * kPerMs;
  const RunResult mended = run_packets(pairs.graph, pairs.program, config);
  CHECK(mended.totals.delivered_messages == 1);
  CHECK(pairs.uplinks_used(mended) == 1);
}

TEST_CASE("a run ends although the only path of a sender has failed for good") {
  const auto graph = leaf_spine(2, 1, 2);
  ProgramBuilder builder(graph);
  const auto paths = graph.paths(graph.nics()[0], graph.nics()[1]);
  builder.add_send_step(builder.add_message(builder.add_qp(0, 1, paths), 4'000'000));
  PacketConfig config = plain_config();
  config.transport.recovery = GENERATE(Recovery::kGoBackN, Recovery::kSelectiveRepeat);
  config.faults = {{.at = 100 * kPerUs, .link = paths[0][1], .up = false}};
  const RunResult result = run_packets(graph, builder.build().value(), config);
  CHECK(result.totals.delivered_messages == 0);
  CHECK(result.totals.events < 100'000);
}

TEST_CASE("senders on one congested link move apart") {
  for (const PathPolicy policy :
       {PathPolicy::kRecycle, PathPolicy::kRehash, PathPolicy::kBurst, PathPolicy::kFlowlet}) {
    const Pairs pairs(4, 2'000'000, policy, 20), fixed(4, 2'000'000, PathPolicy::kStatic, 20);
    PacketConfig config = reordering_config();
    config.ecn.enabled = true;
    config.ecn.kmin_bytes = 50'000;
    config.ecn.kmax_bytes = 100'000;
    config.telemetry.sample_every = 10;
    const RunResult result = run_packets(pairs.graph, pairs.program, config);
    const RunResult unmoved = run_packets(fixed.graph, fixed.program, config);
    INFO(static_cast<int>(policy));
    CHECK(result.totals.delivered_messages == 80);
    CHECK(unmoved.totals.delivered_messages == 80);
    CHECK(unmoved.totals.path_changes == 0);
    CHECK(result.totals.path_changes > 0);
    CHECK(pairs.uplinks_used(result) > 1);
    CHECK(static_cast<double>(result.end) < 0.8 * static_cast<double>(unmoved.end));
  }
}

TEST_CASE("senders whose reason to move never comes stay on their path") {
  const auto changes = [](PathPolicy policy, const auto& set) {
    const Pairs pairs(4, 2'000'000, policy, 5);
    PacketConfig config = reordering_config();
    config.ecn.enabled = true;
    config.ecn.kmin_bytes = 50'000;
    config.ecn.kmax_bytes = 100'000;
    set(config);
    return run_packets(pairs.graph, pairs.program, config).totals.path_changes;
  };
  CHECK(changes(PathPolicy::kRehash, [](PacketConfig& c) { c.choice.rehash_after = 1'000'000; }) == 0);
  CHECK(changes(PathPolicy::kFlowlet, [](PacketConfig& c) { c.choice.flowlet_gap = kPerMs; }) == 0);
  CHECK(changes(PathPolicy::kBurst, [](PacketConfig& c) { c.telemetry.sample_every = 0; }) == 0);
  // The only packet that looks is the first, which finds no queue.
  CHECK(changes(PathPolicy::kBurst, [](PacketConfig& c) { c.telemetry.sample_every = 1'000'000; }) == 0);
  CHECK(changes(PathPolicy::kBurst, [](PacketConfig& c) { c.telemetry.sample_every = 100; }) > 0);
}

TEST_CASE("who takes the paths of unmarked ACKs again leaves a path that another flow fills") {
  const auto graph = leaf_spine(2, 2, 4);
  const auto paths = [&](uint32_t src, uint32_t dst) { return graph.paths(graph.nics()[src], graph.nics()[dst]); };
  ProgramBuilder builder(graph);
  builder.add_send_step(builder.add_message(builder.add_qp(0, 2, {paths(0, 2)[0]}), 8'000'000));
  builder.add_send_step(
      builder.add_message(builder.add_qp(1, 3, paths(1, 3), PathPolicy::kRecycle, k100G / 2), 4'000'000));
  PacketConfig config = reordering_config();
  config.ecn.enabled = true;
  config.ecn.kmin_bytes = 10'000;
  config.ecn.kmax_bytes = 20'000;
  const RunResult result = run_packets(graph, builder.build().value(), config);
  CHECK(result.totals.delivered_messages == 2);
  // Who took marked paths again too would send a tenth by the full one, slow as it is.
  CHECK(result.links[paths(1, 3)[1][1]].sent_bytes > 0.97 * 4'064'000);
}

}  // namespace orrery::sim
