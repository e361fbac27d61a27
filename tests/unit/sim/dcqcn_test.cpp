// DCQCN's reaction point step by step, as published (Zhu et al., SIGCOMM 2015): what a sender's packets are apart after
// one mark, against rates worked by hand.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/sim/fixtures.h"

namespace orrery::sim {
namespace {

constexpr uint64_t kPace = 40'000'000'000;
constexpr Time kNever1s = 1'000 * kPerMs;  // longer than a test

constexpr Time kDrained = 8 * kPerUs;  // after a burst its queue no longer changes what packets are apart

// Times are whole picoseconds.
Approx near(double rate) {
  return Approx(rate).epsilon(1e-5);
}

// Only a queue pair's first mark counts.
PacketConfig one_cut() {
  PacketConfig config;
  config.ecn = {.at_departure = false, .kmin_bytes = 5'000, .kmax_bytes = 5'001, .pmax = 1};
  config.dcqcn = {.cnp_interval = kNever1s,
                  .alpha_timer = kNever1s,
                  .rate_timer = kNever1s,
                  .byte_counter = uint64_t{1} << 60,
                  .additive_bps = 4e9,
                  .hyper_bps = 20e9};
  return config;
}

// Host 1 sends single packets to host 0, at 40 of 100 Gb/s until it is told otherwise. At each of `bursts` six others
// send two packets each, so that its next finds a queue. Its rates from the first cut on, in Gb/s.
std::vector<double> rates_of(const PacketConfig& config, const std::vector<Time>& bursts, uint32_t packets) {
  const auto graph = leaf_spine(1, 1, 8);
  const auto path = [&](uint32_t src) { return graph.paths(graph.nics()[src], graph.nics()[0]).front(); };
  ProgramBuilder builder(graph);
  const uint32_t sender = builder.add_qp(1, 0, {path(1)}, PathPolicy::kStatic, kPace);
  for (uint32_t i = 0; i < packets; ++i) builder.add_send_step(builder.add_message(sender, 4'000));
  for (const Time burst : bursts)
    for (uint32_t other = 2; other < 8; ++other)
      builder.add_send_step(builder.add_message(builder.add_qp(other, 0, {path(other)}), 8'000), burst);
  const RunResult result = run_packets(graph, builder.build().value(), config);
  std::vector<double> rates;
  for (uint32_t i = 1; i < packets; ++i) {
    if (result.delivered_at[i - 1] < bursts.front() + kDrained) continue;
    const auto gap = static_cast<double>(result.delivered_at[i] - result.delivered_at[i - 1]);
    const double rate = 4'064 * 8e3 / gap;
    if (rates.empty() ? rate == near(20) : rate != near(rates.back())) rates.push_back(rate);
  }
  return rates;
}

void check_begins(const std::vector<double>& rates, const std::vector<double>& expected) {
  REQUIRE(rates.size() >= expected.size());
  for (size_t i = 0; i < expected.size(); ++i) CHECK(rates[i] == near(expected[i]));
}

}  // namespace

TEST_CASE("a cut halves the rate; five steps go back half the way, then the target rises too, to the pace at last") {
  const std::vector<double> expected = {20, 30, 35, 37.5, 38.75, 39.375, 41.6875, 44.84375, 48.421875};
  PacketConfig by_time = one_cut(), by_bytes = one_cut();
  by_time.dcqcn.rate_timer = 20 * kPerUs;
  by_bytes.dcqcn.byte_counter = 15 * 4'064;
  check_begins(rates_of(by_time, {10 * kPerUs}, 400), expected);
  check_begins(rates_of(by_bytes, {10 * kPerUs}, 400), expected);
  const std::vector<double> all = rates_of(by_time, {10 * kPerUs}, 4'000);
  CHECK(all.back() == near(40));  // recovered: as fast as it may
}

// With F = 1, bytes every ten packets and the timer every 20 us: bytes, timer, bytes, bytes, timer, bytes. From the
// fifth on both have come twice.
TEST_CASE("the target rises faster once timer and bytes are both past fast recovery") {
  PacketConfig config = one_cut();
  config.dcqcn.rate_timer = 20 * kPerUs;
  config.dcqcn.byte_counter = 10 * 4'064;
  config.dcqcn.fast_recovery = 1;
  check_begins(rates_of(config, {10 * kPerUs}, 400), {20, 30, 35, 39.5, 43.75, 55.875, 71.9375, 85.96875});
}

TEST_CASE("without marks alpha decays once per period of its own, and the next cut is the smaller") {
  PacketConfig config = one_cut();
  config.dcqcn.g = 0.5;
  config.dcqcn.cnp_interval = 10 * kPerUs;
  config.dcqcn.alpha_timer = 30 * kPerUs;
  // Bursts come 100 us apart: alpha is 1/2^3 at the second, (1/16 + 1/2) / 2^3 at the third.
  const double second = 20 * (1 - 0.125 / 2), third = second * (1 - 0.5625 / 8 / 2);
  const std::vector<double> rates = rates_of(config, {10 * kPerUs, 110 * kPerUs, 210 * kPerUs}, 400);
  CHECK(rates.back() == near(third));
  CHECK(std::count(rates.begin(), rates.end(), near(second)) > 0);
}

}  // namespace orrery::sim
