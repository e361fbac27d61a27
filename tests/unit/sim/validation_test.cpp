// The packet engine against queueing theory and a trace worked by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/unit/sim/fixtures.h"
#include "tests/unit/sim/statistics.h"

namespace orrery::sim {
namespace {

fabric::Path only_path(const fabric::Graph& graph, uint32_t src, uint32_t dst) {
  return graph.paths(graph.nics()[src], graph.nics()[dst]).front();
}

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

// M/D/1: mean wait in services (Pollaczek and Khinchine), and the probability that `n` are in the system.
double mean_wait(double load) {
  return load / (2 * (1 - load));
}
double in_system(double load, int n) {
  if (n == 0) return 1 - load;
  double sum = std::exp(n * load);
  for (int k = 1; k < n; ++k) {
    const double x = k * load, sign = (n - k) % 2 == 0 ? 1 : -1;
    sum += sign * std::exp(x) *
           (std::pow(x, n - k) / std::tgamma(n - k + 1) + std::pow(x, n - k - 1) / std::tgamma(n - k));
  }
  return (1 - load) * (n == 1 ? std::exp(load) - 1 : sum);
}

// Waits, in services, of packets that come to one port at random times. Sources take turns, so that none is ever asked
// for a packet while it sends one: what comes to the port is a Poisson stream.
std::vector<double> random_waits(double load, int packets, uint64_t seed) {
  constexpr uint32_t kSources = 32;
  const auto graph = leaf_spine(1, 1, kSources + 1);
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(load / static_cast<double>(kFullPacket));
  ProgramBuilder builder(graph);
  std::vector<uint32_t> qps;
  for (uint32_t source = 1; source <= kSources; ++source)
    qps.push_back(builder.add_qp(source, 0, {only_path(graph, source, 0)}));
  double at = 1;
  for (int packet = 0; packet < packets; ++packet) {
    at += gap(random);
    builder.add_send_step(builder.add_message(qps[packet % kSources], 4'000), static_cast<Time>(at));
  }
  const RunResult result = run_packets(graph, builder.build().value(), plain_config());
  std::vector<double> waits;
  for (size_t message = 0; message < result.delivered_at.size(); ++message) {
    const Time alone = 2 * (kPerUs + kFullPacket);
    waits.push_back(static_cast<double>(result.delivered_at[message] - result.released_at[message] - alone) /
                    static_cast<double>(kFullPacket));
  }
  return waits;
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

TEST_CASE("packets at random times wait as the M/D/1 queue says") {
  const double load = GENERATE(0.5, 0.7, 0.8, 0.9);
  constexpr int kRuns = 20, kSettle = 1'000, kShown = 6;
  // The queue remembers for about 1 / (1 - load)^2 services.
  const int packets = 10'000 + static_cast<int>(300 / ((1 - load) * (1 - load)));
  std::vector<double> means;
  std::vector<std::vector<double>> shares(kShown);  // of packets that found 0, 1, ... before them, by run
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> waits = random_waits(load, packets, 100 + run);
    waits.erase(waits.begin(), waits.begin() + kSettle);
    means.push_back(mean_of(waits));
    for (int n = 0; n < kShown; ++n) {
      const auto found = [n](double wait) { return static_cast<int>(std::ceil(wait - 1e-6)) == n; };
      const auto count = static_cast<double>(std::count_if(waits.begin(), waits.end(), found));
      shares[n].push_back(count / static_cast<double>(waits.size()));
    }
  }
  INFO("load " << load);
  // Runs are independent, so their spread says how far the mean may be off: four standard errors, which are small.
  REQUIRE(standard_error_of(means) < 0.04 * mean_wait(load));
  CHECK(mean_of(means) == Approx(mean_wait(load)).margin(4 * standard_error_of(means)));
  for (int n = 0; n < kShown; ++n) {
    INFO(n << " before it");
    REQUIRE(standard_error_of(shares[n]) < 0.005);
    CHECK(mean_of(shares[n]) == Approx(in_system(load, n)).margin(4 * standard_error_of(shares[n])));
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

// As above, and the packet that comes again at the NAK's bidding, in the nineteenth place, is lost too.
TEST_CASE("a packet that is lost twice comes when a selective receiver asks again, not at the sender's timeout") {
  const auto graph = leaf_spine(1, 1, 2);
  ProgramBuilder builder(graph);
  constexpr uint32_t kPackets = 2'000;
  builder.add_send_step(builder.add_message(builder.add_qp(0, 1, {only_path(graph, 0, 1)}), kPackets * 4'000));
  PacketConfig config = plain_config();
  config.transport.recovery = Recovery::kSelectiveRepeat;
  const uint32_t port = only_path(graph, 0, 1)[1];
  for (const Time place : {3, 19}) {
    const Time at = place * kFullPacket + kPerUs;
    config.faults.push_back({.at = at - 1'000, .link = port, .up = false});
    config.faults.push_back({.at = at + 1'000, .link = port, .up = true});
  }
  const RunResult result = run_packets(graph, builder.build().value(), config);
  CHECK(result.totals.drops == 2);
  CHECK(result.totals.retransmitted == 2);
  // All others filled the link, which sends the two that were lost besides.
  CHECK(result.delivered_at[0] == (kPackets + 2 + 1) * kFullPacket + 2 * kPerUs);
}

TEST_CASE("the end of a message that is lost comes again at one timeout, not a packet at each") {
  const auto graph = leaf_spine(1, 1, 2);
  ProgramBuilder builder(graph);
  builder.add_send_step(builder.add_message(builder.add_qp(0, 1, {only_path(graph, 0, 1)}), 5 * 4'000));
  PacketConfig config = plain_config();
  config.transport.recovery = GENERATE(Recovery::kGoBackN, Recovery::kSelectiveRepeat);
  // The last two: the port is dead when they come.
  const uint32_t port = only_path(graph, 0, 1)[1];
  const Time fourth = 4 * kFullPacket + kPerUs;
  config.faults = {{.at = fourth - 1'000, .link = port, .up = false}, {.at = kPerMs, .link = port, .up = true}};
  const RunResult result = run_packets(graph, builder.build().value(), config);
  CHECK(result.totals.drops == 2);
  CHECK(result.totals.retransmitted == 2);
  // The timer begins anew with the last ACK, the third packet's.
  const Time last_ack = 4 * kFullPacket + 2 * kPerUs + 2 * (kControlPacket + kPerUs);
  CHECK(result.delivered_at[0] == last_ack + config.transport.retransmit_timeout + 3 * kFullPacket + 2 * kPerUs);
}

}  // namespace orrery::sim
