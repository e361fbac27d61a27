#include "tools/sim/fluid/time_buckets.h"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>

namespace orrery::sim {

TEST_CASE("events come out by time, those of one time in the order they were put in, and never after removal") {
  std::mt19937 random(GENERATE(1u, 2u, 3u));
  constexpr uint32_t kEvents = 500;
  TimeBuckets queue(kEvents, TimeBuckets::Kind::kRemovable);
  std::map<Time, std::deque<uint32_t>> expected;
  std::vector<Time> queued_at(kEvents, kNever);
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t event = random() % kEvents;
    if (queued_at[event] == kNever) {
      queued_at[event] = random() % 300;
      queue.push(queued_at[event], event);
      expected[queued_at[event]].push_back(event);
    } else if (random() % 2 == 0) {
      queue.remove(event);
      auto& same = expected[queued_at[event]];
      std::erase(same, event);
      if (same.empty()) expected.erase(queued_at[event]);
      queued_at[event] = kNever;
    }
    if (random() % 4 != 0 || expected.empty()) continue;
    const auto first = expected.begin();
    REQUIRE(queue.next_time() == first->first);
    REQUIRE(queue.pop() == first->second.front());
    queued_at[first->second.front()] = kNever;
    first->second.pop_front();
    if (first->second.empty()) expected.erase(first);
  }
  for (uint32_t event = 0; event < kEvents; ++event) queue.remove(event);
  CHECK(queue.next_time() == kNever);
}

}  // namespace orrery::sim
