// The flow-level engine against arithmetic and against the packet engine.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "tests/unit/sim/long_flows.h"
#include "tools/sim/fluid/max_min.h"
#include "tools/sim/fluid/simulation.h"

namespace orrery::sim {
namespace {

constexpr uint64_t kPacket = 4'000;

std::vector<fabric::Path> paths(const fabric::Graph& graph, uint32_t src, uint32_t dst) {
  return graph.paths(graph.nics()[src], graph.nics()[dst]);
}

// Everybody from `sources` to host 0 by the first path.
Program incast(const fabric::Graph& graph, const std::vector<uint32_t>& sources, uint64_t bytes) {
  ProgramBuilder builder(graph);
  for (const uint32_t source : sources)
    builder.add_send_step(builder.add_message(builder.add_qp(source, 0, {paths(graph, source, 0).front()}), bytes));
  return builder.build().value();
}

std::vector<uint32_t> hosts(uint32_t from, uint32_t count) {
  std::vector<uint32_t> result(count);
  std::iota(result.begin(), result.end(), from);
  return result;
}

// Of the time from release to delivery.
double mean(const RunResult& result) {
  double sum = 0;
  for (size_t i = 0; i < result.delivered_at.size(); ++i)
    sum += static_cast<double>(result.delivered_at[i] - result.released_at[i]);
  return sum / static_cast<double>(result.delivered_at.size());
}

// What links must have carried: the packets of every message times the links of its path.
uint64_t carried_bytes(const Program& program) {
  uint64_t sum = 0;
  for (const Message& message : program.messages)
    for (const uint32_t link : program.paths[program.qp_paths[program.qps[message.qp].first_path]].links)
      if (link != kNone) sum += message.bytes + 64 * std::max<uint64_t>(1, (message.bytes + kPacket - 1) / kPacket);
  return sum;
}

// Random senders, receivers, starts and, with `bytes` 0, sizes; by random paths.
Program staggered(const fabric::Graph& graph, uint32_t flows, uint64_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  ProgramBuilder builder(graph);
  const auto count = static_cast<uint32_t>(graph.nics().size());
  for (uint32_t i = 0; i < flows; ++i) {
    const uint32_t src = random() % count, dst = (src + 1 + random() % (count - 1)) % count;
    const auto all = paths(graph, src, dst);
    const uint32_t qp = builder.add_qp(src, dst, {all[random() % all.size()]});
    builder.add_send_step(builder.add_message(qp, bytes != 0 ? bytes : 1 + random() % 1'000'000),
                          random() % (200 * kPerUs));
  }
  return builder.build().value();
}

}  // namespace

TEST_CASE("a flow alone is delivered when its packets would be, to the picosecond") {
  const auto graph = leaf_spine(2, 2, 4);
  FluidConfig config;
  PacketConfig packets = plain_config();
  config.cut_through = packets.switches.cut_through = GENERATE(false, true);
  config.forwarding_delay = packets.switches.forwarding_delay = 300 * kPerNs;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kPacket, kPacket + 1, 7 * kPacket + 1'000, 1'000 * kPacket}) {
    const Program program = incast(graph, {2}, bytes);
    CHECK(run_fluid(graph, program, config).delivered_at == run_packets(graph, program, packets).delivered_at);
  }
}

TEST_CASE("a paced flow alone is delivered when its packets would be") {
  const auto graph = leaf_spine(2, 2, 4);
  ProgramBuilder builder(graph);
  const uint32_t qp = builder.add_qp(2, 0, {paths(graph, 2, 0).front()}, PathPolicy::kStatic, 40'000'000'000);
  builder.add_send_step(builder.add_message(qp, 20 * kPacket + 8));
  const Program program = builder.build().value();
  CHECK(run_fluid(graph, program, {}).delivered_at == run_packets(graph, program, plain_config()).delivered_at);
}

TEST_CASE("k flows share a link exactly: all end at k times the time of one") {
  const auto graph = leaf_spine(1, 1, 8);
  for (uint32_t k = 1; k <= 7; ++k) {
    const RunResult result = run_fluid(graph, incast(graph, hosts(1, k), 500 * kPacket), {});
    for (const Time time : result.delivered_at) CHECK(time == 2 * kPerUs + kFullPacket + k * 500 * kFullPacket);
  }
}

TEST_CASE("who remains alone goes on at full rate") {
  const auto graph = leaf_spine(1, 1, 4);
  ProgramBuilder builder(graph);
  for (uint32_t host = 1; host <= 2; ++host)
    builder.add_send_step(
        builder.add_message(builder.add_qp(host, 0, {paths(graph, host, 0).front()}), host * 100 * kPacket));
  const RunResult result = run_fluid(graph, builder.build().value(), {});
  const Time path = 2 * kPerUs + kFullPacket;
  CHECK(result.delivered_at[0] == path + 200 * kFullPacket);
  CHECK(result.delivered_at[1] == path + 300 * kFullPacket);
  CHECK(result.end == result.delivered_at[1]);
}

TEST_CASE("messages of a queue pair follow each other without a gap, and steps wait as in the packet engine") {
  const auto graph = leaf_spine(1, 1, 4);
  ProgramBuilder builder(graph);
  const uint32_t there = builder.add_qp(1, 2, {paths(graph, 1, 2).front()});
  const uint32_t on = builder.add_qp(2, 3, {paths(graph, 2, 3).front()});
  const uint32_t first = builder.add_message(there, 10 * kPacket), second = builder.add_message(there, 10 * kPacket);
  const uint32_t third = builder.add_message(on, kPacket);
  builder.add_send_step(second);
  builder.add_send_step(first, 77);
  builder.after_delivered(second, builder.add_send_step(third, 10'000));
  builder.after_acknowledged(third, builder.add_step(2, 11));
  const Program program = builder.build().value();
  const RunResult fluid = run_fluid(graph, program, {}), packets = run_packets(graph, program, plain_config());
  CHECK(fluid.delivered_at == packets.delivered_at);
  CHECK(fluid.released_at == packets.released_at);
  CHECK(fluid.step_done_at == packets.step_done_at);
}

TEST_CASE("links have carried every byte of every flow, and waveforms show when") {
  const auto graph = leaf_spine(4, 2, 16);
  const Program program = staggered(graph, 300, 0, GENERATE(1u, 2u, 3u));
  FluidConfig config;
  config.recording = {.slice = 10 * kPerUs, .most_slices = GENERATE(8u, 4096u)};
  const RunResult result = run_fluid(graph, program, config);
  CHECK(result.totals.delivered_messages == program.messages.size());
  double total = 0;
  for (size_t link = 0; link < result.links.size(); ++link) {
    const auto sent = static_cast<double>(result.links[link].sent_bytes);
    total += sent;
    double wave = 0;
    const Waveform& waveform = result.waveforms[link];
    CHECK(waveform.bytes.size() <= config.recording.most_slices);
    for (const uint64_t bytes : waveform.bytes) {
      CHECK(bytes <= waveform.slice / 80 + 1);  // 100 Gb/s
      wave += static_cast<double>(bytes);
    }
    CHECK(wave == Approx(sent).margin(300 + 0.5 * static_cast<double>(waveform.bytes.size())));
  }
  CHECK(total == Approx(static_cast<double>(carried_bytes(program))).margin(100));
}

TEST_CASE("a flow sprayed over two spines has both of them, one on a path has one") {
  // Uplinks of a quarter of the NIC's rate would need another fabric: three senders share two spine links instead.
  const auto graph = leaf_spine(2, 2, 6);
  for (const PathPolicy policy : {PathPolicy::kStatic, PathPolicy::kSpray}) {
    ProgramBuilder builder(graph);
    for (uint32_t host = 0; host < 2; ++host)
      builder.add_send_step(
          builder.add_message(builder.add_qp(host, host + 3, paths(graph, host, host + 3), policy), 1'000 * kPacket));
    const RunResult result = run_fluid(graph, builder.build().value(), {});
    const Time one = 4 * (kPerUs + kFullPacket) + 999 * kFullPacket;
    CHECK(result.end == (policy == PathPolicy::kSpray ? one : one + 1'000 * kFullPacket));
  }
}

TEST_CASE("a failure stops what is on it until it is known, then the backup carries the rest") {
  const auto graph = leaf_spine(2, 2, 4);
  const auto both = paths(graph, 0, 2);
  const PathPolicy policy = GENERATE(PathPolicy::kStatic, PathPolicy::kSpray, PathPolicy::kRecycle);
  ProgramBuilder builder(graph);
  builder.add_send_step(builder.add_message(builder.add_qp(0, 2, both, policy), 10'000 * kPacket));
  FluidConfig config;
  config.faults = {{.at = 100 * kPerUs, .link = both[0][1], .up = false}};
  config.fault_detection = 500 * kPerUs;
  const RunResult result = run_fluid(graph, builder.build().value(), config);
  const Time undisturbed = 4 * (kPerUs + kFullPacket) + 9'999 * kFullPacket;
  const Time lost = policy == PathPolicy::kRecycle ? 0 : 500 * kPerUs;
  CHECK(result.delivered_at[0] == undisturbed + lost);
  CHECK(result.totals.path_changes == 1);
  CHECK(result.links[both[1][1]].sent_bytes > result.links[both[0][1]].sent_bytes);
  CHECK(static_cast<double>(result.links[both[1][1]].sent_bytes + result.links[both[0][1]].sent_bytes) ==
        Approx(10'000.0 * 4'064).margin(2));
}

TEST_CASE("with every path dead a flow waits for the link") {
  const auto graph = leaf_spine(1, 1, 2);
  const Program program = incast(graph, {1}, 1'000 * kPacket);
  const uint32_t link = program.paths[program.qps[0].first_path].links[0];
  FluidConfig config;
  config.faults = {{.at = 10 * kPerUs, .link = link, .up = false}, {.at = 30 * kPerMs, .link = link, .up = true}};
  const RunResult waits = run_fluid(graph, program, config);
  CHECK(waits.delivered_at[0] == 2 * (kPerUs + kFullPacket) + 999 * kFullPacket + 30 * kPerMs - 10 * kPerUs);
  config.faults.pop_back();
  CHECK(run_fluid(graph, program, config).delivered_at[0] == kNever);
}

TEST_CASE("the default tolerance changes no completion by a tenth of a percent, on average") {
  const auto graph = leaf_spine(8, 4, 64);
  const Program program = staggered(graph, 500, 500'000, 4);
  FluidConfig config;
  const double coarse = mean(run_fluid(graph, program, config));
  config.tolerance = MaxMin::kExact;
  CHECK(coarse == Approx(mean(run_fluid(graph, program, config))).epsilon(1e-3));
}

TEST_CASE("the same run twice is the same, and the order of flows in the program does not matter") {
  const auto graph = leaf_spine(4, 2, 16);
  const Program program = staggered(graph, 200, 0, 9);
  const RunResult once = run_fluid(graph, program, {});
  CHECK(run_fluid(graph, program, {}).delivered_at == once.delivered_at);
  Program turned = program;  // step i releases message n-1-i
  const auto count = static_cast<uint32_t>(program.messages.size());
  std::reverse(turned.steps.begin(), turned.steps.end());
  const RunResult again = run_fluid(graph, turned, {});
  for (uint32_t i = 0; i < count; ++i) {
    const Time a = once.delivered_at[i], b = again.delivered_at[i];
    CHECK((a > b ? a - b : b - a) <= 2);  // sums of doubles in another order
  }
}

// Switches that serve connections in turn, and windows that keep every connection waiting somewhere, make rates max-min
// fair (Hahne 1991): then both engines are of one opinion, and what differs is ACKs and the rest of the last window.
TEST_CASE("mean completion of long flows is that of the packet engine within 1 % where switches serve flows in turn") {
  const auto [leaves, spines, count] =
      GENERATE(table<uint32_t, uint32_t, uint32_t>({{4, 4, 16}, {8, 4, 32}, {8, 8, 64}}));
  const auto graph = leaf_spine(leaves, spines, count);
  const uint64_t bytes = 4'194'304;
  const uint32_t seed = GENERATE(1u, 2u);
  const bool several = GENERATE(false, true);
  const Program program = several ? staggered(graph, 2 * count, bytes, seed)
                                  : permutation(graph, random_derangement(count, seed), bytes, seed);
  PacketConfig packets = plain_config();
  packets.pfc.enabled = false;  // pauses would reach flows that share no bottleneck
  packets.switches.fair_queueing = true;
  packets.transport.window_bytes = 240'000;
  packets.transport.ack_every = 8;
  const RunResult each = run_packets(graph, program, packets);
  CHECK(each.totals.drops == 0);
  const double expected = mean(each);
  INFO(count << " hosts, " << (several ? "random pairs" : "permutation"));
  CHECK(mean(run_fluid(graph, program, {})) == Approx(expected).epsilon(0.01));
}

// Queues that serve first in, first out, under fixed windows favour flows that cross few of them (the rates tend to
// proportional fairness, Massoulie and Roberts 1999), so that the mean is shorter than the fluid's.
TEST_CASE("where switches serve first in, first out, the mean of the fluid is longer, by 7 % at most") {
  const auto graph = leaf_spine(8, 4, 32);
  const uint64_t bytes = 4'194'304;
  const uint32_t seed = GENERATE(1u, 2u, 3u);
  const bool several = GENERATE(false, true);
  const Program program =
      several ? staggered(graph, 64, bytes, seed) : permutation(graph, random_derangement(32, seed), bytes, seed);
  PacketConfig packets = plain_config();
  packets.pfc.enabled = false;
  packets.transport.window_bytes = 480'000;
  packets.transport.ack_every = 8;
  const RunResult first = run_packets(graph, program, packets);
  CHECK(first.totals.drops == 0);
  const double longer = mean(run_fluid(graph, program, {})) / mean(first);
  CHECK(longer > 1.01);
  CHECK(longer < 1.07);
}

// What that favour is, the rule for windows knows.
TEST_CASE("first in, first out, with windows: mean completion of long flows is the packet engine's within 3 %") {
  PacketConfig config = plain_config();
  config.pfc.enabled = false;
  config.transport.window_bytes = 480'000;
  config.transport.ack_every = 8;
  check_means(long_flows(16'777'216, k100G, 1), config, Sharing::kWindows);
}

TEST_CASE("where full links have prices, a dead link holds its flows until it is back, and a run repeats itself") {
  const auto graph = leaf_spine(4, 2, 16);
  const Program program = staggered(graph, 100, 500'000, 3);
  FluidConfig config;
  config.sharing = GENERATE(Sharing::kWindows, Sharing::kDcqcn);
  const uint32_t link = program.paths[0].links[1];
  config.faults = {{.at = 20 * kPerUs, .link = link, .up = false}, {.at = 2 * kPerMs, .link = link, .up = true}};
  const RunResult result = run_fluid(graph, program, config);
  CHECK(result.totals.delivered_messages == program.messages.size());
  CHECK(result.end > 2 * kPerMs);
  CHECK(run_fluid(graph, program, config).delivered_at == result.delivered_at);
}

}  // namespace orrery::sim
