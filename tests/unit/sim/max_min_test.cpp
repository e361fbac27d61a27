// Max-min rates by hand, and against a filling that begins from nothing each time.
#include "tools/sim/fluid/max_min.h"

#include <catch2/catch.hpp>
#include <random>

namespace orrery::sim {
namespace {

struct Plain {
  std::vector<uint32_t> links;
  std::vector<uint16_t> parts;
  uint16_t of = 1;
  double limit = 0;
  uint32_t flows = 0;
  double weight(uint32_t link) const {
    double sum = 0;
    for (size_t i = 0; i < links.size(); ++i)
      if (links[i] == link) sum += double{1} * flows * parts[i] / of;
    return sum;
  }
};

// All rise together; who meets a full link or its limit stops. Slow and obvious.
std::vector<double> filled(const std::vector<double>& capacity, const std::vector<Plain>& groups) {
  std::vector<double> rate(groups.size(), 0);
  std::vector<bool> stopped(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) stopped[i] = groups[i].flows == 0;
  for (;;) {
    double step = -1;
    std::vector<double> left = capacity, rising(capacity.size());
    for (size_t i = 0; i < groups.size(); ++i)
      for (uint32_t l = 0; l < capacity.size(); ++l) {
        left[l] -= groups[i].weight(l) * rate[i];
        if (!stopped[i]) rising[l] += groups[i].weight(l);
      }
    for (uint32_t l = 0; l < capacity.size(); ++l)
      if (rising[l] > 0 && (step < 0 || left[l] / rising[l] < step)) step = left[l] / rising[l];
    for (size_t i = 0; i < groups.size(); ++i)
      if (!stopped[i] && groups[i].limit > 0 && (step < 0 || groups[i].limit - rate[i] < step))
        step = groups[i].limit - rate[i];
    if (step < 0) return rate;
    step = std::max(step, 0.0);
    for (size_t i = 0; i < groups.size(); ++i)
      if (!stopped[i]) rate[i] += step;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (stopped[i]) continue;
      stopped[i] = groups[i].limit > 0 && rate[i] >= groups[i].limit * (1 - 1e-12);
      for (uint32_t l = 0; l < capacity.size(); ++l)
        if (groups[i].weight(l) > 0 && left[l] - step * rising[l] <= 1e-9 * (capacity[l] + 1)) stopped[i] = true;
    }
  }
}

struct Case {
  MaxMin rates;
  std::vector<uint32_t> groups;
  Case(std::vector<double> capacity, const std::vector<std::vector<uint32_t>>& paths) : rates(std::move(capacity)) {
    for (const auto& path : paths) groups.push_back(rates.add_group(path, std::vector<uint16_t>(path.size(), 1), 1, 0));
    rates.seal();
    for (const uint32_t group : groups) rates.set_flows(group, 1);
    rates.update();
  }
  double operator[](size_t i) const { return rates.rate_bps(groups[i]); }
};

void draw_parts(Plain& group, std::mt19937& random) {
  group.of = static_cast<uint16_t>(1 + random() % 3);
  for (uint16_t& part : group.parts) part = static_cast<uint16_t>(random() % (group.of + 1u));
  group.parts[0] = group.of;
}

}  // namespace

TEST_CASE("parking lot: the long flow and the short ones share every link alike") {
  const Case lot({10, 10, 10}, {{0, 1, 2}, {0}, {1}, {2}});
  for (size_t i = 0; i < 4; ++i) CHECK(lot[i] == 5);
}

TEST_CASE("what a flow cannot take at its bottleneck goes to the others at the next") {
  // Link 0: three flows at 3 each. Link 1: one of these and two more, which share the 13 that remain.
  const Case two({9, 16}, {{0}, {0}, {0, 1}, {1}, {1}});
  CHECK(two[0] == 3);
  CHECK(two[2] == 3);
  CHECK(two[3] == 6.5);
  CHECK(two[4] == 6.5);
}

TEST_CASE("a flow that ends gives its part on: up the chain, and to nobody that has no link with it") {
  // 0 and 1 share link 0; 1 and 2 share link 1; 3 is alone on link 2.
  Case chain({10, 12, 7}, {{0}, {0, 1}, {1}, {2}});
  CHECK(chain[0] == 5);
  CHECK(chain[2] == 7);
  chain.rates.set_flows(chain.groups[0], 0);
  const auto moved = chain.rates.update();
  CHECK(std::vector<uint32_t>(moved.begin(), moved.end()).size() == 2);
  CHECK(chain[1] == 6);
  CHECK(chain[2] == 6);
  CHECK(chain[3] == 7);
}

TEST_CASE("k flows of a group have a k-th each, and a limit leaves the rest to others") {
  MaxMin rates({100});
  const uint32_t link[] = {0};
  const uint16_t whole[] = {1};
  const uint32_t many = rates.add_group(link, whole, 1, 0), slow = rates.add_group(link, whole, 1, 4);
  rates.seal();
  rates.set_flows(many, 5);
  rates.update();
  CHECK(rates.rate_bps(many) == 20);
  rates.set_flows(slow, 5);
  rates.update();
  CHECK(rates.rate_bps(slow) == 4);
  CHECK(rates.rate_bps(many) == 16);
}

TEST_CASE("a flow split over two paths fills both; one link gone stops it") {
  MaxMin rates({100, 30, 30});
  const uint32_t links[] = {0, 1, 2};
  const uint16_t half[] = {2, 1, 1};
  const uint32_t split = rates.add_group(links, half, 2, 0);
  rates.seal();
  rates.set_flows(split, 1);
  rates.update();
  CHECK(rates.rate_bps(split) == 60);
  rates.set_capacity(2, 0);
  rates.update();
  CHECK(rates.rate_bps(split) == 0);
  const uint16_t one[] = {1, 1, 0};
  rates.set_parts(split, one, 1);
  rates.update();
  CHECK(rates.rate_bps(split) == 30);
}

TEST_CASE("rates kept over any changes are those of a filling from nothing, and no link carries too much") {
  const uint32_t seed = GENERATE(range(1u, 41u));
  std::mt19937 random(seed);
  const uint32_t link_count = 2 + random() % 12, group_count = 1 + random() % 30;
  std::vector<double> capacity;
  for (uint32_t l = 0; l < link_count; ++l) capacity.push_back(1 + static_cast<double>(random() % 10));
  MaxMin rates(capacity);
  std::vector<Plain> groups(group_count);
  for (Plain& group : groups) {
    for (uint32_t l = 0; l < link_count; ++l)
      if (random() % 3 == 0) group.links.push_back(l);
    if (group.links.empty()) group.links.push_back(random() % link_count);
    group.parts.resize(group.links.size());
    draw_parts(group, random);
    if (random() % 4 == 0) group.limit = 0.25 * static_cast<double>(1 + random() % 8);
    rates.add_group(group.links, group.parts, group.of, group.limit);
  }
  rates.seal();
  std::vector<double> told(group_count, 0);
  for (int change = 0; change < 40; ++change) {
    for (uint32_t n = 0; n <= random() % 3; ++n) {
      const uint32_t id = random() % group_count, what = random() % 8;
      if (what == 0) {
        draw_parts(groups[id], random);
        rates.set_parts(id, groups[id].parts, groups[id].of);
      } else if (what == 1) {
        const uint32_t link = random() % link_count;
        capacity[link] = static_cast<double>(random() % 10);
        rates.set_capacity(link, capacity[link]);
      } else {
        groups[id].flows = random() % 3;
        rates.set_flows(id, groups[id].flows);
        if (groups[id].flows == 0) told[id] = 0;
      }
    }
    for (const uint32_t id : rates.update()) told[id] = rates.rate_bps(id);
    const std::vector<double> expected = filled(capacity, groups);
    std::vector<double> load(link_count);
    for (uint32_t i = 0; i < group_count; ++i) {
      REQUIRE(told[i] == Approx(expected[i]).epsilon(1e-7).margin(1e-7));
      for (uint32_t l = 0; l < link_count; ++l) load[l] += groups[i].weight(l) * told[i];
    }
    for (uint32_t l = 0; l < link_count; ++l) REQUIRE(load[l] <= capacity[l] * (1 + 1e-9) + 1e-9);
  }
}

}  // namespace orrery::sim
