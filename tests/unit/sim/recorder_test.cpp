// What the packet engine records while it runs, and what it tells a watcher.
#include "tools/sim/packet/recorder.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/fluid/simulation.h"

namespace orrery::sim {
namespace {

Program to_host_0(const fabric::Graph& graph, uint32_t sources, uint64_t bytes) {
  ProgramBuilder builder(graph);
  for (uint32_t src = 1; src <= sources; ++src)
    builder.add_send_step(
        builder.add_message(builder.add_qp(src, 0, {graph.paths(graph.nics()[src], graph.nics()[0]).front()}), bytes));
  return builder.build().value();
}

uint64_t sum(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

PacketConfig recorded(uint32_t most_slices) {
  PacketConfig config = plain_config();
  config.recording = {.slice = 4 * kPerUs, .most_slices = most_slices};
  return config;
}

}  // namespace

TEST_CASE("slices of a waveform add up to what the link sent, and are no more than allowed however long it takes") {
  const auto graph = leaf_spine(2, 2, 8);
  const uint32_t most = GENERATE(8u, 64u, 4096u);
  const RunResult result = run_packets(graph, to_host_0(graph, 7, 1'000'000), recorded(most));
  REQUIRE(result.waveforms.size() == graph.links().size());
  const fabric::LinkId busiest = graph.link(graph.nics()[0].uplink).reverse;
  const Waveform& wave = result.waveforms[busiest];
  CHECK(wave.bytes.size() <= most);
  CHECK(wave.bytes.size() > (most == 4096 ? 100 : most / 2 - 1));
  CHECK(sum(wave.bytes) == result.links[busiest].sent_bytes);
  CHECK(wave.slice * wave.bytes.size() >= result.end);
  // 100 Gb/s; a packet counts where its first bit is.
  for (const uint64_t bytes : wave.bytes) CHECK(bytes <= wave.slice / 80 + 4'064);
  CHECK(wave.bytes[1] > wave.slice / 80 - 2 * 4'064);
  CHECK(result.waveforms[graph.nics()[0].uplink].queued_bytes.empty());
}

TEST_CASE("queues fill under incast and are sampled as deep as they are") {
  const auto graph = leaf_spine(1, 1, 4);
  const RunResult result = run_packets(graph, to_host_0(graph, 3, 1'000'000), recorded(64));
  const fabric::LinkId link = graph.link(graph.nics()[0].uplink).reverse;
  const auto& queued = result.waveforms[link].queued_bytes;
  const uint64_t deepest = *std::max_element(queued.begin(), queued.end());
  CHECK(deepest <= result.links[link].max_queued_bytes);
  CHECK(deepest > result.links[link].max_queued_bytes * 9 / 10);
  // Four ports to hosts, of which three stay empty; the fourth holds something nearly all the time.
  CHECK(sum(result.edge_queues.port_ns) == 4 * (result.end / kPerNs));
  const auto empty = static_cast<double>(result.edge_queues.port_ns[0]);
  CHECK(empty / static_cast<double>(result.end / kPerNs) == Approx(3.0).margin(0.1));
}

TEST_CASE("what is recorded does not depend on the number of threads, nor does recording or watching change the run") {
  const auto graph = leaf_spine(4, 2, 16);
  const Program program = to_host_0(graph, 15, 200'000);
  PacketConfig config = recorded(32);
  const RunResult alone = run_packets(graph, program, config);
  const RunResult plain = run_packets(graph, program, plain_config());
  CHECK(plain.delivered_at == alone.delivered_at);
  CHECK(plain.waveforms.empty());
  for (const uint32_t threads : {1u, 2u, 3u}) {
    config.threads = threads;
    uint64_t last = 0, pulses = 0;
    const Watch watch{[&](const Pulse& pulse) {
                        CHECK(pulse.delivered_bytes >= last);
                        last = pulse.delivered_bytes;
                        ++pulses;
                      },
                      std::chrono::nanoseconds(0)};
    const RunResult result = run_packets(graph, program, config, watch);
    CHECK(pulses > 10);
    CHECK(last == 15 * 200'000);
    CHECK(result.delivered_at == alone.delivered_at);
    CHECK(result.core_queues.port_ns == alone.core_queues.port_ns);
    CHECK(result.edge_queues.port_ns == alone.edge_queues.port_ns);
    for (size_t link = 0; link < alone.waveforms.size(); ++link) {
      CHECK(result.waveforms[link].bytes == alone.waveforms[link].bytes);
      CHECK(result.waveforms[link].queued_bytes == alone.waveforms[link].queued_bytes);
    }
  }
}

TEST_CASE("the fluid engine tells a watcher how far it is") {
  const auto graph = leaf_spine(4, 2, 16);
  uint64_t last = 0;
  const Watch watch{[&](const Pulse& pulse) { last = pulse.delivered_bytes; }, std::chrono::nanoseconds(0)};
  ProgramBuilder builder(graph);
  const uint32_t qp = builder.add_qp(0, 15, {graph.paths(graph.nics()[0], graph.nics()[15]).front()});
  for (uint32_t i = 0; i < 100; ++i) builder.add_send_step(builder.add_message(qp, 10'000), i * kPerUs);
  const RunResult result = run_fluid(graph, builder.build().value(), {}, watch);
  CHECK(last > 0);
  CHECK(last <= result.totals.delivered_bytes);
}

TEST_CASE("classes of queue depth are an eighth of a power of two wide") {
  for (uint64_t bytes = 0; bytes < 100'000; bytes += 1 + bytes / 50) {
    const size_t depth = QueueTimes::class_of(bytes);
    CHECK(bytes <= QueueTimes::most_in(depth));
    if (depth > 1) CHECK(bytes > QueueTimes::most_in(depth - 1));
    if (bytes >= 8) CHECK(static_cast<double>(QueueTimes::most_in(depth)) <= 1.125 * static_cast<double>(bytes));
  }
  CHECK(QueueTimes::class_of(~uint64_t{0}) == QueueTimes::kClasses - 1);
}

}  // namespace orrery::sim
