#include "agent/collect/collectives.h"

#include <catch2/catch.hpp>
#include <random>

using namespace orrery::collect;

namespace {

orrery_collective_event call(uint64_t comm_id, uint32_t group) {
  orrery_collective_event event{};
  event.comm_id = comm_id;
  event.bytes = 1 << 20;
  event.op = ORRERY_OP_ALL_REDUCE;
  event.peer = UINT32_MAX;
  event.group = group;
  return event;
}

constexpr uint64_t kMs = 1'000'000;

}  // namespace

TEST_CASE("a collective ends when its bytes have rested, with the times of its first and last byte", "[collect]") {
  const Limits limits;
  const Cadence cadence{.quiet_ns = 20 * kMs};
  Collectives collectives(limits, cadence);
  CHECK(collectives.call(call(1, 1), 3, 100 * kMs).sequence == 0);
  CHECK(collectives.take_ended(200 * kMs).empty());  // no byte seen: nothing to tell
  collectives.observe(1, 101 * kMs, 105 * kMs);
  collectives.observe(1, 101 * kMs, 130 * kMs);
  CHECK(collectives.take_ended(149 * kMs).empty());
  const auto ended = collectives.take_ended(150 * kMs);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].first_byte_ns == 101 * kMs);
  CHECK(ended[0].last_byte_ns == 130 * kMs);
  CHECK(ended[0].rank == 3);
  CHECK(collectives.take_ended(500 * kMs).empty());
}

TEST_CASE("bytes that come late extend an ended collective and its end is told again", "[collect]") {
  const Limits limits;
  const Cadence cadence{.quiet_ns = 20 * kMs};
  Collectives collectives(limits, cadence);
  collectives.call(call(1, 1), 0, 100 * kMs);
  collectives.observe(1, 101 * kMs, 105 * kMs);
  CHECK(collectives.take_ended(130 * kMs).size() == 1);
  collectives.observe(1, 320 * kMs, 330 * kMs);  // a retransmission timeout later
  const auto again = collectives.take_ended(350 * kMs);
  REQUIRE(again.size() == 1);
  CHECK(again[0].sequence == 0);
  CHECK(again[0].first_byte_ns == 101 * kMs);
  CHECK(again[0].last_byte_ns == 330 * kMs);
}

TEST_CASE("the first bytes of the next collective end the one before", "[collect]") {
  const Limits limits;
  const Cadence cadence{.quiet_ns = 20 * kMs};
  Collectives collectives(limits, cadence);
  collectives.call(call(1, 1), 0, 100 * kMs);
  collectives.observe(1, 101 * kMs, 109 * kMs);
  collectives.call(call(1, 2), 0, 110 * kMs);
  CHECK(collectives.take_ended(111 * kMs).empty());
  collectives.observe(1, 105 * kMs, 112 * kMs);  // a burst that runs on from one into the other
  const auto ended = collectives.take_ended(113 * kMs);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].sequence == 0);
  CHECK(ended[0].last_byte_ns == 109 * kMs);
  const auto second = collectives.take_ended(200 * kMs);
  REQUIRE(second.size() == 1);
  CHECK(second[0].sequence == 1);
  CHECK(second[0].first_byte_ns == 110 * kMs);  // not before it was called
}

TEST_CASE("the calls of one group share their bytes; another communicator's are its own", "[collect]") {
  const Limits limits;
  const Cadence cadence{.quiet_ns = 20 * kMs};
  Collectives collectives(limits, cadence);
  collectives.call(call(1, 7), 0, 100 * kMs);
  collectives.call(call(1, 7), 0, 100 * kMs);
  collectives.call(call(2, 8), 0, 100 * kMs);
  collectives.observe(1, 101 * kMs, 102 * kMs);
  const auto ended = collectives.take_ended(200 * kMs);
  REQUIRE(ended.size() == 2);
  for (const Collective& collective : ended) {
    CHECK(collective.comm_id == 1);
    CHECK(collective.last_byte_ns == 102 * kMs);
  }
}

TEST_CASE("a communicator's end tells what its collectives had so far", "[collect]") {
  const Limits limits;
  const Cadence cadence{.quiet_ns = 20 * kMs};
  Collectives collectives(limits, cadence);
  collectives.call(call(1, 1), 0, 100 * kMs);
  collectives.observe(1, 101 * kMs, 102 * kMs);
  collectives.forget(1);
  CHECK(collectives.take_ended(103 * kMs).size() == 1);
  collectives.observe(1, 101 * kMs, 104 * kMs);
  CHECK(collectives.take_ended(200 * kMs).empty());
}

TEST_CASE("whatever is called and observed, an end lies after its call and is told with both times", "[collect]") {
  std::mt19937 random(GENERATE(1, 2, 3, 4, 5, 6));
  Limits limits;
  limits.open_collectives_per_process = 5;
  const Cadence cadence{.quiet_ns = 10};
  Collectives collectives(limits, cadence);
  uint64_t now = 1000;
  for (int step = 0; step < 5000; ++step) {
    now += random() % 8;
    const uint64_t comm_id = 1 + random() % 3;
    switch (random() % 5) {
      case 0:
        collectives.call(call(comm_id, random() % 4), 0, now);
        break;
      case 1:
        if (random() % 20 == 0) collectives.forget(comm_id);
        break;
      default: {
        const uint64_t last = now - random() % 30;
        collectives.observe(comm_id, last - random() % 30, last);
      }
    }
    for (const Collective& ended : collectives.take_ended(now)) {
      REQUIRE(ended.first_byte_ns >= ended.called_ns);
      REQUIRE(ended.last_byte_ns >= ended.first_byte_ns);
      REQUIRE(ended.last_byte_ns <= now);
    }
  }
}
