// The packet engine against arithmetic that can be done by hand (sources: facts of public simulators' exact checks).
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/unit/sim/fixtures.h"

namespace orrery::sim {
namespace {

const fabric::Path& first_path(const fabric::Graph& graph, uint32_t src, uint32_t dst) {
  static fabric::Path path;
  path = graph.paths(graph.nics()[src], graph.nics()[dst]).front();
  return path;
}

// All of `sources` send `bytes` to host 0.
Program incast(const fabric::Graph& graph, const std::vector<uint32_t>& sources, uint64_t bytes) {
  ProgramBuilder builder(graph);
  for (const uint32_t source : sources)
    builder.add_send_step(builder.add_message(builder.add_qp(source, 0, {first_path(graph, source, 0)}), bytes));
  return builder.build().value();
}

}  // namespace

TEST_CASE("data hops are packets times links, exactly") {
  const auto graph = leaf_spine(4, 4, 16);
  const auto to = random_derangement(16, 7);
  const uint64_t bytes = 8'388'608;
  uint64_t expected = 0;
  const Program program = permutation(graph, to, bytes, 1);
  for (const QueuePair& qp : program.qps)
    for (const uint32_t link : program.paths[program.qp_paths[qp.first_path]].links)
      expected += link != kNone ? (bytes + 3'999) / 4'000 : 0;
  const RunResult result = run_packets(graph, program, plain_config());
  CHECK(result.totals.data_hops == expected);
  CHECK(result.totals.hops == 2 * expected);  // an ACK for each
  CHECK(result.totals.delivered_bytes == 16 * bytes);
  CHECK(result.totals.drops == 0);
}

TEST_CASE("alone, a flow takes its serialization, plus one packet and one propagation a link") {
  const auto graph = leaf_spine(2, 2, 4);
  for (const uint64_t packets : {1u, 2u, 100u}) {
    const Program program = incast(graph, {2}, packets * 4'000);
    const RunResult result = run_packets(graph, program, plain_config());
    CHECK(result.delivered_at[0] == 4 * (kPerUs + kFullPacket) + (packets - 1) * kFullPacket);
  }
}

TEST_CASE("a short last packet waits behind the full one before it at every hop") {
  const auto graph = leaf_spine(2, 2, 4);
  const Program program = incast(graph, {2}, 3 * 4'000 + 1'000);
  const RunResult result = run_packets(graph, program, plain_config());
  CHECK(result.delivered_at[0] == 4 * kPerUs + (3 + 3) * kFullPacket + (1'000 + 64) * 80);
}

TEST_CASE("cut-through forwards a packet when its header has come") {
  const auto graph = leaf_spine(2, 2, 4);
  PacketConfig config = plain_config();
  config.switches.cut_through = true;
  const RunResult result = run_packets(graph, incast(graph, {2}, 4'000), config);
  CHECK(result.delivered_at[0] == 4 * kPerUs + 3 * kControlPacket + kFullPacket);
}

TEST_CASE("k flows into one link end at k times the time of one") {
  const auto graph = leaf_spine(1, 1, 8);
  for (uint32_t k = 1; k <= 6; ++k) {
    std::vector<uint32_t> sources(k);
    std::iota(sources.begin(), sources.end(), 1u);
    const uint64_t packets = 500;
    const RunResult result = run_packets(graph, incast(graph, sources, packets * 4'000), plain_config());
    CHECK(result.end == 2 * kPerUs + kFullPacket + k * packets * kFullPacket);
    CHECK(result.totals.drops == 0);
  }
}

TEST_CASE("an incast loses nothing with flow control, and recovers by going back without") {
  const auto graph = leaf_spine(4, 4, 16);
  std::vector<uint32_t> sources(15);
  std::iota(sources.begin(), sources.end(), 1u);
  PacketConfig config = plain_config();
  config.switches.port_limit_bytes = 200'000;
  config.pfc.enabled = GENERATE(true, false);
  const RunResult result = run_packets(graph, incast(graph, sources, 2'000'000), config);
  CHECK(result.totals.delivered_messages == 15);
  CHECK(result.totals.delivered_bytes == 15 * 2'000'000);
  CHECK((result.totals.drops == 0) == config.pfc.enabled);
  CHECK((result.totals.pauses > 0) == config.pfc.enabled);
  CHECK((result.totals.retransmitted > 0) == !config.pfc.enabled);
  LinkTotals links;
  for (const LinkTotals& link : result.links) {
    links.drops += link.drops;
    links.marks += link.marks;
    links.pauses += link.pauses;
    CHECK((link.paused_time > 0) == (link.pauses > 0));
  }
  CHECK(links.drops == result.totals.drops);
  CHECK(links.marks == result.totals.marks);
  CHECK(links.pauses == result.totals.pauses);
  uint64_t again = 0;
  for (const QpTotals& qp : result.qps) again += qp.retransmitted;
  CHECK(again == result.totals.retransmitted);
}

TEST_CASE("a pause that does not end counts until the run does") {
  const auto graph = leaf_spine(1, 1, 4);
  PacketConfig config = plain_config();
  const fabric::LinkId port = graph.link(graph.nics()[3].uplink).reverse;
  config.faults = {{.at = kPerUs, .link = port, .up = false, .kind = FaultKind::kPausingNic}};
  const RunResult result = run_packets(graph, incast(graph, {1}, 400'000), config);
  CHECK(result.links[port].pauses == 1);
  CHECK(result.links[port].paused_time == result.end - kPerUs);
}

TEST_CASE("steps release messages in turn: a chain around a ring") {
  const auto graph = leaf_spine(1, 1, 4);
  ProgramBuilder builder(graph);
  std::vector<uint32_t> messages;
  for (uint32_t host = 0; host < 4; ++host)
    messages.push_back(
        builder.add_message(builder.add_qp(host, (host + 1) % 4, {first_path(graph, host, (host + 1) % 4)}), 4'000));
  builder.add_send_step(messages[0], 7);
  for (uint32_t host = 1; host < 4; ++host)
    builder.after_delivered(messages[host - 1],
                            builder.add_send_step(messages[host], 10'000));  // longer than the ACK before it
  const uint32_t end = builder.add_step(3, 11);
  builder.after_acknowledged(messages[3], end);
  const RunResult result = run_packets(graph, builder.build().value(), plain_config());
  const Time one = 2 * (kPerUs + kFullPacket);
  CHECK(result.delivered_at[0] == 7 + one);
  CHECK(result.delivered_at[3] == 7 + 3 * 10'000 + 4 * one);
  CHECK(result.step_done_at[end] == result.delivered_at[3] + 2 * (kPerUs + kControlPacket) + 11);
}

TEST_CASE("the rates that DCQCN sets share a link fairly and fill it") {
  const auto graph = leaf_spine(1, 1, 8);
  const uint32_t senders = GENERATE(2u, 4u);
  std::vector<uint32_t> sources(senders);
  std::iota(sources.begin(), sources.end(), 1u);
  const uint64_t bytes = 100'000'000;
  PacketConfig config;
  config.dcqcn.additive_bps = 1e9;
  const RunResult result = run_packets(graph, incast(graph, sources, bytes), config);
  CHECK(result.totals.cnps > 0);
  CHECK(result.totals.drops == 0);
  const auto ideal = static_cast<double>(senders * bytes * 80);
  CHECK(static_cast<double>(result.end) < 1.25 * ideal);
  const auto [first, last] = std::minmax_element(result.delivered_at.begin(), result.delivered_at.end());
  CHECK(static_cast<double>(*first) > 0.6 * static_cast<double>(*last));
}

TEST_CASE("more packets than a queue pair can count are refused, with the cure") {
  const auto graph = leaf_spine(1, 1, 2);
  const uint64_t most = 4'294'967'294;
  ProgramBuilder builder(graph);
  const uint32_t qp = builder.add_qp(1, 0, {first_path(graph, 1, 0)});
  builder.add_send_step(builder.add_message(qp, (most - 1) * 4'000));
  builder.add_send_step(builder.add_message(qp, GENERATE(0u, 4'000u, 4'001u)));
  const Program program = builder.build().value();
  const auto checked = check_packet_counts(program, plain_config());
  if (program.messages[1].bytes <= 4'000) {
    CHECK(checked);
  } else {
    REQUIRE_FALSE(checked);
    CHECK(
        checked.error().message ==
        "a queue pair from host 1 to host 0 sends 4294967295 packets; the packet engine counts 4294967294 of one: take "
        "--engine fluid, or fewer rounds");
  }
}

}  // namespace orrery::sim
