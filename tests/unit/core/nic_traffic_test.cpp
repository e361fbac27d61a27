#include "controller/daemon/nic_traffic.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace orrery::daemon;

namespace {

constexpr uint64_t kS = 1'000'000'000;

// One NIC, sampled as the controller does, with time of its own.
struct Nic {
  NicTraffic traffic;
  uint64_t now = 77 * kS;
  uint64_t sent = 0;

  // `bps` by the second since the begin of the call.
  void run(int seconds, const std::function<double(int)>& bps) {
    for (int i = 0; i < seconds * 20; ++i) {
      traffic.sample(std::vector<uint64_t>{sent}, now);
      sent += static_cast<uint64_t>(bps(i / 20) / 8 / 20);
      now += kS / 20;
    }
  }
  void run(int seconds, double bps) {
    run(seconds, [bps](int) { return bps; });
  }
};

NicExpectation expected(double mean_bps, uint64_t period_ns = kS / 10) {
  return {.jobs = "train", .mean_bps = mean_bps, .peak_bps = mean_bps, .period_ns = period_ns};
}

}  // namespace

TEST_CASE("traffic at the predicted rate is as predicted; over a fifth less or more is not") {
  const std::pair<double, Verdict> cases[] = {{100e6, Verdict::kAsPredicted},
                                              {85e6, Verdict::kAsPredicted},
                                              {75e6, Verdict::kSlower},
                                              {115e6, Verdict::kAsPredicted},
                                              {125e6, Verdict::kFaster}};
  for (const auto& [bps, verdict] : cases) {
    Nic nic;
    nic.run(30, bps);
    const NicLevel level = nic.traffic.judge(0, expected(100e6));
    CHECK(level.verdict == verdict);
    CHECK(level.mean_bps == Approx(bps).epsilon(0.01));
    CHECK(level.peak_bps == Approx(bps).epsilon(0.01));
  }
}

TEST_CASE("nothing is judged before ten seconds of traffic, but what it sends is told") {
  Nic nic;
  nic.run(20, 0);
  nic.run(5, 40e6);
  const NicLevel level = nic.traffic.judge(0, expected(100e6));
  CHECK(level.verdict == Verdict::kUnknown);
  CHECK(level.mean_bps == Approx(40e6).epsilon(0.25));
  nic.run(7, 40e6);
  CHECK(nic.traffic.judge(0, expected(100e6)).verdict == Verdict::kSlower);
}

TEST_CASE("iterations longer than a slice are judged by whole ones, whatever the moment") {
  Nic nic;
  const auto bursts = [](int second) { return second % 12 < 3 ? 400e6 : 0; };  // 100 Mbit/s on average
  nic.run(48, bursts);
  for (int moment = 0; moment < 12; ++moment) {
    INFO(moment);
    const NicLevel level = nic.traffic.judge(0, expected(100e6, 12 * kS));
    CHECK(level.verdict == Verdict::kAsPredicted);
    CHECK(level.mean_bps == Approx(100e6).epsilon(0.1));
    CHECK(level.peak_bps == Approx(400e6).epsilon(0.1));
    nic.run(1, bursts(moment));
  }
}

TEST_CASE("a NIC that should send and does not is silent, not slow, also just after it stopped") {
  Nic nic;
  nic.run(20, 0);
  CHECK(nic.traffic.judge(0, expected(100e6)).verdict == Verdict::kSilent);
  nic.run(20, 100e6);
  nic.run(4, 0);
  CHECK(nic.traffic.judge(0, expected(100e6)).verdict == Verdict::kSilent);
}

TEST_CASE("a NIC that sends though nothing is expected of it is not predicted; control traffic does not count") {
  Nic nic;
  nic.run(20, 100e3);
  CHECK(nic.traffic.judge(0, {}).verdict == Verdict::kUnknown);
  nic.run(5, 50e6);
  CHECK(nic.traffic.judge(0, {}).verdict == Verdict::kNotPredicted);
}

TEST_CASE("iterations longer than what is kept are not judged") {
  Nic nic;
  nic.run(200, 50e6);
  const NicLevel level = nic.traffic.judge(0, expected(100e6, 600 * kS));
  CHECK(level.verdict == Verdict::kUnknown);
  CHECK(level.mean_bps == Approx(50e6).epsilon(0.01));
}

TEST_CASE("before the first samples there is nothing to tell") {
  NicTraffic traffic;
  CHECK(traffic.judge(0, expected(1e6)).verdict == Verdict::kUnknown);
  traffic.sample(std::vector<uint64_t>{5}, kS);
  CHECK(traffic.judge(0, expected(1e6)).mean_bps == 0);
}
