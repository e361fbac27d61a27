#include "tools/sim/packet/event_lines.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

namespace orrery::sim {

TEST_CASE("events come in the order of their times, whatever line or heap they were put in") {
  std::mt19937_64 random(GENERATE(1u, 2u, 3u));
  EventLines events;
  std::multimap<Time, uint64_t> expected;
  // Few, or more than there are lines.
  std::vector<Time> delays{5, 80, 81, 1'000, 325'120, 1'000'000};
  if (GENERATE(false, true))
    for (Time delay = 100; delay < 500; ++delay) delays.push_back(delay);
  Time now = 0;
  uint64_t made = 0, seen = 0;
  std::set<uint32_t> carrying;  // events that have a packet, by id
  for (int round = 0; round < 20'000; ++round) {
    for (uint64_t i = random() % 3; i > 0; --i) {
      const uint64_t key = Event::make_key(EventKind::kWake, static_cast<uint32_t>(++made));
      const uint64_t way = random() % (delays.size() + 1);
      const Time time = now + (way < delays.size() ? delays[way] : 1 + random() % 100'000);
      if (way < delays.size()) {
        events.push(events.line_for(delays[way]), time, key, {.qp = static_cast<uint32_t>(made)});
        carrying.insert(static_cast<uint32_t>(made));
      } else if (random() % 2 != 0) {
        events.push_soon(time, key);
      } else {
        events.push_late(time, key);
      }
      expected.emplace(time, key);
    }
    if (events.empty()) continue;
    REQUIRE(events.size() == expected.size());
    REQUIRE(events.next_time() == expected.begin()->first);
    const Event event = events.pop();
    REQUIRE(event.time == expected.begin()->first);
    now = event.time;
    auto [at, end] = expected.equal_range(event.time);
    while (at != end && at->second != event.key) ++at;
    REQUIRE(at != end);
    REQUIRE(event.packet.qp == (carrying.count(event.id()) != 0 ? event.id() : 0));
    expected.erase(at);
    ++seen;
  }
  CHECK(seen > 10'000);
}

TEST_CASE("more delays than there are lines have none, and are not mixed up") {
  EventLines events;
  uint32_t line = 0;
  for (Time delay = 1; delay <= 252; ++delay) {
    line = events.line_for(delay);
    REQUIRE(line != kNone);
  }
  CHECK(events.line_for(253) == kNone);
  CHECK(events.line_for(252) == line);
  CHECK(events.line_for(1, 7) == kNone);
}

TEST_CASE("a key says what an event is") {
  Event event;
  event.key = Event::make_key(EventKind::kTimer, 0xdeadbeef, 0xabcdef);
  CHECK(event.kind() == EventKind::kTimer);
  CHECK(event.id() == 0xdeadbeef);
  CHECK(event.detail() == 0xabcdef);
}

}  // namespace orrery::sim
