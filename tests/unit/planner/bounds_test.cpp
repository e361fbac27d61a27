#include "controller/planner/bounds.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "tests/unit/planner/fixtures.h"

using namespace orrery::planner;
using orrery::planner::testing::Random;

namespace {

constexpr uint64_t kGigabit = 1'000'000'000;  // one byte takes 8 ns

uint64_t best_by_trial(const std::vector<Bin>& bins, const std::vector<uint64_t>& weights) {
  std::vector<uint64_t> load;
  for (const Bin& bin : bins) load.push_back(bin.fixed_bytes);
  uint64_t best = UINT64_MAX;
  const auto descend = [&](const auto& self, size_t index) -> void {
    if (index == weights.size()) {
      uint64_t worst = 0;
      for (size_t bin = 0; bin < bins.size(); ++bin) worst = std::max(worst, drain_ns(load[bin], bins[bin].rate_bps));
      best = std::min(best, worst);
      return;
    }
    for (uint64_t& bytes : load) {
      bytes += weights[index];
      self(self, index + 1);
      bytes -= weights[index];
    }
  };
  descend(descend, 0);
  return best;
}

}  // namespace

TEST_CASE("drain times are rounded up and do not overflow") {
  CHECK(drain_ns(0, kGigabit) == 0);
  CHECK(drain_ns(1, kGigabit) == 8);
  CHECK(drain_ns(1, 3'000'000'000) == 3);
  CHECK(drain_ns(UINT64_MAX, 1) == UINT64_MAX);
  CHECK(drain_ns(1, 0) == UINT64_MAX);
}

TEST_CASE("equal flows over equal links are bounded by the fullest link") {
  const std::vector<Bin> bins(4, Bin{kGigabit, 0});
  CHECK(cut_bound_ns(bins, std::vector<uint64_t>(4, 1000)) == 8000);
  CHECK(cut_bound_ns(bins, std::vector<uint64_t>(5, 1000)) == 16000);
  CHECK(cut_bound_ns(bins, std::vector<uint64_t>(8, 1000)) == 16000);
  CHECK(cut_bound_ns(bins, std::vector<uint64_t>(9, 1000)) == 24000);
}

TEST_CASE("the bound of a cut counts whole flows when rates or fixed loads differ") {
  // A link of half the rate takes one flow while the other takes two: three flows need 16 us.
  CHECK(cut_bound_ns(std::vector<Bin>{{kGigabit, 0}, {kGigabit / 2, 0}}, std::vector<uint64_t>(3, 1000)) == 16000);
  // Fractions would allow 12 us here, whole flows do not.
  CHECK(cut_bound_ns(std::vector<Bin>{{kGigabit, 0}, {kGigabit / 2, 0}}, std::vector<uint64_t>(2, 1000)) == 16000);
  CHECK(cut_bound_ns(std::vector<Bin>{{kGigabit, 1000}, {kGigabit, 0}}, std::vector<uint64_t>(2, 1000)) == 16000);
}

TEST_CASE("the bound of a cut is never above the best assignment") {
  Random random(11);
  uint32_t equal = 0;
  for (int round = 0; round < 500; ++round) {
    const bool alike = random.below(2) == 0;
    std::vector<Bin> bins;
    for (uint32_t bin = 0, count = 1 + random.below(3); bin < count; ++bin)
      bins.push_back({alike ? kGigabit : (1 + random.below(4)) * kGigabit, alike ? 0 : random.below(3) * 700});
    std::vector<uint64_t> weights;
    for (uint32_t flow = 0, count = 1 + random.below(6); flow < count; ++flow)
      weights.push_back(1 + random.below(2000));
    std::sort(weights.begin(), weights.end(), std::greater<>());
    const uint64_t bound = cut_bound_ns(bins, weights), best = best_by_trial(bins, weights);
    REQUIRE(bound <= best);
    equal += bound == best;
  }
  CHECK(equal > 150);
}
