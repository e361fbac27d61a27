#include "tools/sim/fluid/priced_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace orrery::sim {
namespace {

using Alpha = PricedShares::Alpha;
using LinkShape = PricedShares::LinkShape;

constexpr double kFine = 1e-6;

// A flow over each list of links, all of them present.
std::vector<double> rates(const std::vector<LinkShape>& links, const std::vector<std::vector<uint32_t>>& flows,
                          Alpha alpha, double ack_part = 0) {
  PricedShares shares(links, alpha, ack_part, kFine);
  for (const auto& path : flows) shares.add_group(path, std::vector<uint16_t>(path.size(), 1), 1, 0);
  shares.seal();
  for (uint32_t i = 0; i < flows.size(); ++i) shares.set_flows(i, 1);
  shares.update();
  std::vector<double> result;
  for (uint32_t i = 0; i < flows.size(); ++i) result.push_back(shares.rate_bps(i));
  return result;
}

// NICs first, then switch ports, with a cable each.
std::vector<LinkShape> fabric(uint32_t nics, uint32_t ports, double capacity = 100) {
  std::vector<LinkShape> links(nics + ports, {capacity, kNone, false});
  for (uint32_t i = 0; i < nics; ++i) links[i].at_host = true;
  return links;
}

}  // namespace

TEST_CASE("flows that pay one price are equal, and one that pays n of it has n ^ (-1 / alpha) of that") {
  const auto [alpha, power] = GENERATE(table<Alpha, double>({{Alpha::kWindows, 1.0}, {Alpha::kDcqcn, 0.75}}));
  for (uint32_t n = 1; n <= 4; ++n) {
    std::vector<std::vector<uint32_t>> flows{{0}};
    for (uint32_t i = 0; i < n; ++i) {
      flows[0].push_back(n + 1 + i);
      flows.push_back({1 + i, n + 1 + i});
    }
    const std::vector<double> rate = rates(fabric(n + 1, n), flows, alpha);
    const double part = std::pow(n, -power);
    CHECK(rate[0] == Approx(100 * part / (1 + part)).epsilon(1e-4));
    for (uint32_t i = 1; i <= n; ++i) CHECK(rate[i] == Approx(100 / (1 + part)).epsilon(1e-4));
  }
}

TEST_CASE("a NIC gives what one flow cannot use to its others, in equal parts") {
  // Three of host 0, one of which meets two of others.
  const std::vector<double> rate = rates(fabric(3, 3), {{0, 3}, {0, 4}, {0, 5}, {1, 3}, {2, 3}, {1}}, Alpha::kDcqcn);
  const double met = 100.0 / 3;
  for (const uint32_t flow : {0u, 1u, 2u, 3u, 4u}) CHECK(rate[flow] == Approx(met).epsilon(1e-4));
  CHECK(rate[5] == Approx(100 - met).epsilon(1e-4));
}

TEST_CASE("ACKs take their part of the link back") {
  std::vector<LinkShape> links = fabric(2, 2);
  links[2].reverse = 3, links[3].reverse = 2;
  const std::vector<double> both = rates(links, {{0, 2}, {1, 3}}, Alpha::kDcqcn, 0.016);
  CHECK(both[0] == Approx(100 / 1.016).epsilon(1e-4));
  CHECK(both[1] == Approx(100 / 1.016).epsilon(1e-4));
  CHECK(rates(links, {{0, 2}}, Alpha::kDcqcn, 0.016)[0] == Approx(100));
}

TEST_CASE("a flow split over two ports pays half of either's price, and a limit holds") {
  PricedShares shares(fabric(2, 2), Alpha::kWindows, 0, kFine);
  const std::vector<uint32_t> split{0, 2, 3}, whole{1, 2};
  shares.add_group(split, std::vector<uint16_t>{2, 1, 1}, 2, 0);
  shares.add_group(whole, std::vector<uint16_t>{1, 1}, 1, 80);
  shares.seal();
  shares.set_flows(0, 1);
  shares.set_flows(1, 1);
  shares.update();
  // Port 3 is never full: x / 2 + y = 100 with x = 100 of its NIC, y what is left.
  CHECK(shares.rate_bps(0) == Approx(100).epsilon(1e-4));
  CHECK(shares.rate_bps(1) == Approx(50).epsilon(1e-4));
  shares.set_flows(0, 0);
  shares.update();
  CHECK(shares.rate_bps(1) == Approx(80));
}

TEST_CASE("a dead port stops its flows and frees others, until it is back") {
  PricedShares shares(fabric(2, 2), Alpha::kDcqcn, 0, kFine);
  for (const auto& path : {std::vector<uint32_t>{0, 2, 3}, std::vector<uint32_t>{1, 3}})
    shares.add_group(path, std::vector<uint16_t>(path.size(), 1), 1, 0);
  shares.seal();
  for (uint32_t i = 0; i < 2; ++i) shares.set_flows(i, 1);
  shares.update();
  CHECK(shares.rate_bps(0) == Approx(50).epsilon(1e-4));
  shares.set_capacity(2, 0);
  shares.update();
  CHECK(shares.rate_bps(0) == 0);
  CHECK(shares.rate_bps(1) == Approx(100).epsilon(1e-4));
  shares.set_capacity(2, 100);
  shares.update();
  CHECK(shares.rate_bps(0) == Approx(50).epsilon(1e-4));
}

// What is kept while flows come and go is what would be computed from nothing, and no link carries too much.
TEST_CASE("after many changes rates are those of a fresh computation") {
  const Alpha alpha = GENERATE(Alpha::kWindows, Alpha::kDcqcn);
  constexpr uint32_t kNics = 16, kPorts = 12, kGroups = 60;
  constexpr double kTolerance = 1e-4;
  std::mt19937 random(5);
  std::vector<LinkShape> links = fabric(kNics, kPorts, 1e11);
  for (uint32_t i = kNics; i < kNics + kPorts; ++i) links[i].reverse = kNics + (i - kNics + kPorts / 2) % kPorts;
  std::vector<std::vector<uint32_t>> paths;
  for (uint32_t i = 0; i < kGroups; ++i) {
    std::vector<uint32_t> path{static_cast<uint32_t>(random() % kNics)};
    for (uint32_t part = 0; part < 3; ++part)
      path.push_back(static_cast<uint32_t>(kNics + part * kPorts / 3 + random() % (kPorts / 3)));
    paths.push_back(path);
  }
  const auto make = [&] {
    PricedShares shares(links, alpha, 0.016, kTolerance);
    for (const auto& path : paths) shares.add_group(path, std::vector<uint16_t>(path.size(), 1), 1, 0);
    shares.seal();
    return shares;
  };
  PricedShares kept = make();
  std::vector<uint32_t> flows(kGroups);
  for (uint32_t round = 0; round < 200; ++round) {
    for (uint32_t i = 0; i < 3; ++i) {
      const uint32_t group = random() % kGroups;
      kept.set_flows(group, flows[group] = random() % 3);
    }
    kept.update();
    if (round % 20 != 19) continue;
    PricedShares fresh = make();
    for (uint32_t group = 0; group < kGroups; ++group) fresh.set_flows(group, flows[group]);
    fresh.update();
    std::vector<double> load(links.size());
    for (uint32_t group = 0; group < kGroups; ++group) {
      if (flows[group] == 0) continue;
      CHECK(kept.rate_bps(group) == Approx(fresh.rate_bps(group)).epsilon(0.01));
      for (const uint32_t link : paths[group]) load[link] += flows[group] * kept.rate_bps(group);
    }
    for (uint32_t link = 0; link < links.size(); ++link) {
      const double acks = links[link].reverse == kNone ? 0 : 0.016 * load[links[link].reverse];
      CHECK(load[link] + acks < 1e11 * (1 + 10 * kTolerance));
    }
  }
}

}  // namespace orrery::sim
