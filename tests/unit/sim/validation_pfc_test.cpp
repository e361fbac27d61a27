// A pause storm: one NIC that does not stop sending pause frames halts hosts that never speak to it (Guo et al., "RDMA
// over Commodity Ethernet at Scale", SIGCOMM 2016, section 4.3).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/sim/fixtures.h"

namespace orrery::sim {
namespace {

constexpr Time kBegin = 200 * kPerUs, kEnd = 2'000 * kPerUs;
constexpr uint64_t kBytes = 40'000;
constexpr uint32_t kMessages = 100;

enum Stream : uint32_t {
  kToFaulty,      // from the second leaf, over the first spine
  kBehindIt,      // the same way, to a good NIC
  kTwiceRemoved,  // shares only its own host's link with kBehindIt, and none with kToFaulty
  kElsewhere,     // shares no link with any of them
  kStreams
};

struct Storm {
  RunResult result;
  std::vector<std::vector<Time>> delivered;  // by stream, in order
  LinkTotals faulty_port;

  size_t delivered_between(Stream stream, Time begin, Time end) const {
    const auto& times = delivered[stream];
    return static_cast<size_t>(
        std::count_if(times.begin(), times.end(), [&](Time at) { return at >= begin && at < end; }));
  }
};

// Hosts 0 to 3 are under the first leaf, 4 to 7 under the second. Each stream sends a message every 20 us: what one
// port can carry of all of them with ease.
Storm run_storm(bool broken, Time watchdog, uint32_t threads) {
  const auto graph = leaf_spine(2, 2, 8);
  const auto by_first_spine = [&](uint32_t src, uint32_t dst) {
    return graph.paths(graph.nics()[src], graph.nics()[dst]).front();
  };
  ProgramBuilder builder(graph);
  const std::pair<uint32_t, uint32_t> ends[kStreams] = {{4, 0}, {5, 1}, {5, 6}, {2, 3}};
  for (const auto& [src, dst] : ends) {
    const uint32_t qp = builder.add_qp(src, dst, {by_first_spine(src, dst)});
    for (uint32_t i = 0; i < kMessages; ++i)
      builder.add_send_step(builder.add_message(qp, kBytes), 1 + i * 20 * kPerUs);
  }
  PacketConfig config = plain_config();
  config.pfc = {.xoff_bytes = 100'000, .xon_bytes = 90'000, .headroom_bytes = 100'000, .watchdog = watchdog};
  config.threads = threads;
  const fabric::LinkId port = graph.link(graph.nics()[0].uplink).reverse;
  if (broken)
    config.faults = {{.at = kBegin, .link = port, .up = false, .kind = FaultKind::kPausingNic},
                     {.at = kEnd, .link = port, .up = true, .kind = FaultKind::kPausingNic}};
  Storm storm{run_packets(graph, builder.build().value(), config), {}, {}};
  for (uint32_t stream = 0; stream < kStreams; ++stream)
    storm.delivered.emplace_back(storm.result.delivered_at.begin() + stream * kMessages,
                                 storm.result.delivered_at.begin() + (stream + 1) * kMessages);
  storm.faulty_port = storm.result.links[port];
  return storm;
}

// By then every buffer on the way is full.
constexpr Time kFull = kBegin + 600 * kPerUs;

}  // namespace

TEST_CASE("a NIC that pauses its port halts hosts that have no link in common with those that send to it") {
  const Storm calm = run_storm(false, 0, 1);
  const Storm storm = run_storm(true, 0, GENERATE(1u, 2u));
  for (const Stream stream : {kToFaulty, kBehindIt, kTwiceRemoved}) {
    INFO("stream " << stream);
    CHECK(calm.delivered_between(stream, kFull, kEnd) > 50);
    CHECK(storm.delivered_between(stream, kFull, kEnd) == 0);
  }
  CHECK(storm.delivered[kElsewhere] == calm.delivered[kElsewhere]);
  CHECK(storm.faulty_port.paused_time == kEnd - kBegin);
  // When it ends all is sent, and nothing was lost: without the watchdog a storm only takes time.
  CHECK(storm.result.totals.delivered_messages == kStreams * kMessages);
  CHECK(storm.result.totals.drops == 0);
  CHECK(storm.result.totals.pauses > 0);
  CHECK(calm.result.totals.pauses == 0);
}

TEST_CASE("the watchdog confines a storm to those that send to the broken NIC, at the price of their packets") {
  const Storm storm = run_storm(true, 100 * kPerUs, GENERATE(1u, 2u));
  CHECK(storm.delivered_between(kToFaulty, kFull, kEnd) == 0);
  CHECK(storm.delivered_between(kBehindIt, kFull, kEnd) > 50);
  CHECK(storm.delivered_between(kTwiceRemoved, kFull, kEnd) > 50);
  CHECK(storm.faulty_port.drops > 0);
  CHECK(storm.result.totals.drops == storm.faulty_port.drops);
  CHECK(storm.result.totals.delivered_messages == kStreams * kMessages);
}

// Thresholds less than a packet apart: one packet that comes and one that goes at the same picosecond pause and resume.
// Senders are paced, so that none has another packet on its way, whose arrival would ask for a pause again.
TEST_CASE("a port that is paused and resumed at one moment goes on") {
  const uint32_t senders = GENERATE(3u, 4u, 5u), packets = GENERATE(8u, 9u, 10u, 11u);
  const auto graph = leaf_spine(1, 1, senders + 1);
  ProgramBuilder builder(graph);
  for (uint32_t src = 1; src <= senders; ++src) {
    const auto path = graph.paths(graph.nics()[src], graph.nics()[0]).front();
    const uint32_t qp = builder.add_qp(src, 0, {path}, PathPolicy::kStatic, k100G / 2);
    builder.add_send_step(builder.add_message(qp, 400'000));
  }
  PacketConfig config = plain_config();
  config.pfc = {.xoff_bytes = packets * 4'064, .xon_bytes = packets * 4'064, .headroom_bytes = 100'000};
  config.propagation = kPerNs;
  const RunResult result = run_packets(graph, builder.build().value(), config);
  CHECK(result.totals.pauses > 0);
  CHECK(result.totals.delivered_messages == senders);
  CHECK(result.end == 2 * kPerNs + (100 * senders + 1) * kFullPacket);
}

}  // namespace orrery::sim
