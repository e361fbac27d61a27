#include "tools/lab/bench/pattern.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tools/lab/bench/report.h"

namespace orrery::bench {
namespace {

TEST_CASE("what is filled checks as right, and one changed element as one wrong") {
  const Pattern pattern(ncclFloat32, [](size_t i) { return static_cast<double>(i % 11); });
  std::vector<float> data(3 * kPeriod + 17);
  pattern.fill(data.data(), data.size(), 1234);
  REQUIRE(pattern.count_wrong(data.data(), data.size(), 1234, 0) == 0);
  data[2 * kPeriod + 5] += 1;
  REQUIRE(pattern.count_wrong(data.data(), data.size(), 1234, 0) == 1);
}

TEST_CASE("a chunk in the place of another is wrong") {
  const Pattern pattern(ncclInt32, [](size_t i) { return moved_value(i, 3); });
  std::vector<int32_t> data(1 << 20);
  pattern.fill(data.data(), data.size(), 0);
  const size_t chunk = data.size() / 16;
  std::copy_n(data.begin(), chunk, data.begin() + static_cast<std::ptrdiff_t>(5 * chunk));
  REQUIRE(pattern.count_wrong(data.data(), data.size(), 0, 0) > chunk / 2);
}

TEST_CASE("the expected reduction is what the inputs of all ranks reduce to") {
  const auto op = GENERATE(ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg);
  const int nranks = GENERATE(1, 2, 5, 16, 40);
  for (size_t i = 0; i < kPeriod; i += 7) {
    double sum = 0, product = 1, most = -1e9, least = 1e9;
    for (int rank = 0; rank < nranks; ++rank) {
      const double value = reduction_input(op, i, rank, nranks);
      sum += value, product *= value, most = std::max(most, value), least = std::min(least, value);
    }
    const double reduced[] = {sum, product, most, least, sum / nranks};
    REQUIRE(reduction_result(op, ncclFloat64, i, nranks) == reduced[op]);
  }
}

TEST_CASE("a percentile is the nearest rank") {
  REQUIRE(percentile({3, 1, 2}, 0.5) == 2);
  REQUIRE(percentile({3, 1, 2}, 0.99) == 3);
  REQUIRE(percentile({7}, 0.01) == 7);
}

TEST_CASE("bus bandwidth follows nccl-tests' factors") {
  REQUIRE(bus_factor(Collective::kAllReduce, 16) == Approx(1.875));
  REQUIRE(bus_factor(Collective::kAllGather, 4) == Approx(0.75));
  REQUIRE(bus_factor(Collective::kBroadcast, 4) == 1);
}

}  // namespace
}  // namespace orrery::bench
