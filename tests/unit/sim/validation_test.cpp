// The packet engine against queueing theory and a trace worked by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/unit/sim/fixtures.h"

namespace orrery::sim {
namespace {

// N*D/D/1: probability that the work before a server exceeds x services, with `sources` of period `period` services at
// random phases (Roberts and Virtamo 1991).
double waits_longer(int sources, double period, double x) {
  double sum = 0;
  for (int n = static_cast<int>(std::floor(x)) + 1; n <= sources; ++n) {
    const double share = (n - x) / period;
    const double choose = std::exp(std::lgamma(sources + 1) - std::lgamma(n + 1) - std::lgamma(sources - n + 1));
    sum += choose * std::pow(share, n) * std::pow(1 - share, sources - n) * (period - sources + x) / (period - n + x);
  }
  return sum;
}

fabric::Path only_path(const fabric::Graph& graph, uint32_t src, uint32_t dst) {
  return graph.paths(graph.nics()[src], graph.nics()[dst]).front();
}

}  // namespace

TEST_CASE("paced sources wait as the N*D/D/1 queue says") {
  constexpr int kSources = 16, kPeriod = 20, kRuns = 400, kPackets = 3;
  const auto graph = leaf_spine(1, 1, kSources + 1);
  std::mt19937_64 random(11);
  std::vector<int> longer(4);
  int seen = 0;
  for (int run = 0; run < kRuns; ++run) {
    ProgramBuilder builder(graph);
    std::vector<Time> starts;
    for (uint32_t source = 1; source <= kSources; ++source) {
      const uint32_t qp =
          builder.add_qp(source, 0, {only_path(graph, source, 0)}, PathPolicy::kStatic, k100G / kPeriod);
      starts.push_back(1 + random() % (kPeriod * kFullPacket));
      for (int packet = 0; packet < kPackets; ++packet)
        builder.add_send_step(builder.add_message(qp, 4'000), starts.back());
    }
    const RunResult result = run_packets(graph, builder.build().value(), plain_config());
    for (size_t message = 0; message < result.delivered_at.size(); ++message) {
      // The first round of packets meets no earlier ones: it is not yet the queue in its long run.
      if (message % kPackets == 0) continue;
      const Time sent = starts[message / kPackets] + message % kPackets * kPeriod * kFullPacket;
      const Time alone = 2 * (kPerUs + kFullPacket);
      REQUIRE(result.delivered_at[message] >= sent + alone);
      const auto waited = static_cast<double>(result.delivered_at[message] - sent - alone) / kFullPacket;
      for (size_t x = 0; x < longer.size(); ++x) longer[x] += waited > static_cast<double>(x) + 1e-6;
      ++seen;
    }
  }
  // A packet meets the work of the others.
  for (size_t x = 0; x < longer.size(); ++x) {
    const double expected = waits_longer(kSources - 1, kPeriod, static_cast<double>(x));
    INFO("more than " << x << " packets");
    CHECK(static_cast<double>(longer[x]) / seen == Approx(expected).margin(0.025));
  }
}

TEST_CASE("one lost packet makes a sender go back as a trace by hand has it") {
  const auto graph = leaf_spine(1, 1, 2);
  ProgramBuilder builder(graph);
  builder.add_send_step(builder.add_message(builder.add_qp(0, 1, {only_path(graph, 0, 1)}), 5 * 4'000));
  PacketConfig config = plain_config();
  // Packets reach the switch at T + P, 2 T + P, ...: the port is dead when the third of five does.
  const Time third = 3 * kFullPacket + kPerUs;
  const uint32_t port = only_path(graph, 0, 1)[1];
  config.faults = {{.at = third - 1'000, .link = port, .up = false}, {.at = third + 1'000, .link = port, .up = true}};
  const RunResult result = run_packets(graph, builder.build().value(), config);
  CHECK(result.totals.drops == 1);
  CHECK(result.totals.retransmitted == 3);
  // The fourth arrives at 5 T + 2 P and is answered by a NAK, which is there 2 (C + P) later; then three packets again.
  const Time nak = 5 * kFullPacket + 2 * kPerUs + 2 * (kControlPacket + kPerUs);
  CHECK(result.delivered_at[0] == nak + 3 * kFullPacket + kFullPacket + 2 * kPerUs);
}

}  // namespace orrery::sim
