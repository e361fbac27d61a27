#include <sys/mman.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "common/shm/agent_segment.h"
#include "common/shm/segment_writer.h"
#include "events.h"

namespace orrery::shm {
namespace {

constexpr uint64_t kNow = 1'000'000'000;
const SegmentShape kShape{.ring_count = 4, .ring_events = 64, .flow_slots = 32};

struct Mapping {
  explicit Mapping(const AgentSegment& agent)
      : bytes(agent.bytes()), base(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, agent.fd(), 0)) {
    REQUIRE(base != MAP_FAILED);
  }
  ~Mapping() { munmap(base, bytes); }
  size_t bytes;
  void* base;
};

}  // namespace

TEST_CASE("a segment full of garbage costs bounded work and yields only well-formed events") {
  std::mt19937_64 random(GENERATE(1, 2, 3, 4, 5, 6, 7, 8));
  auto agent = AgentSegment::create(kShape).value();
  Mapping process(agent);
  auto* words = static_cast<uint64_t*>(process.base);
  for (int round = 0; round < 200; ++round) {
    for (size_t i = 0; i < process.bytes / 8; ++i) words[i] = random() % 3 == 0 ? random() % 16 : random();
    if (round % 2 == 0)
      for (uint32_t ring = 0; ring < kShape.ring_count; ++ring)
        ring_at(process.base, kShape, ring)->produced = random() % 128;
    uint64_t calls = 0;
    const DrainResult result = agent.drain(1000, kNow, [&](const orrery_event& event) {
      ++calls;
      if (!is_well_formed(event, kShape.flow_slots, kNow)) FAIL("an event was delivered that is not well-formed");
    });
    REQUIRE(calls == result.events);
    REQUIRE(result.events + result.malformed <= uint64_t{kShape.ring_count} * kShape.ring_events);
    for (uint32_t slot = 0; slot < 64; ++slot) {
      const auto sample = agent.read_flow(slot);
      if (sample) REQUIRE((slot < kShape.flow_slots && (sample->generation & 1)));
    }
  }
}

TEST_CASE("a count that jumps is noticed, given up, and the ring works again") {
  auto agent = AgentSegment::create(kShape).value();
  Mapping process(agent);
  SegmentWriter writer;
  REQUIRE(writer.open(process.base, process.bytes));
  orrery_ring_header* ring = writer.claim_ring(1, [](uint32_t) { return true; });
  for (uint64_t jump : {uint64_t{65}, uint64_t{1} << 40, ~uint64_t{0}}) {
    ring->produced += jump;
    const DrainResult result = agent.drain(1000, kNow, [](const orrery_event&) {});
    CHECK(result.resyncs == 1);
    CHECK(result.events + result.malformed == 0);
    CHECK(writer.push(ring, collective_event(kNow, 1, 42)));
    uint64_t bytes = 0;
    CHECK(agent.drain(1000, kNow, [&](const orrery_event& event) { bytes = event.collective.bytes; }).events == 1);
    CHECK(bytes == 42);
  }
}

TEST_CASE("a process that rewrites the agent's own counter fools only itself") {
  auto agent = AgentSegment::create(kShape).value();
  Mapping process(agent);
  SegmentWriter writer;
  REQUIRE(writer.open(process.base, process.bytes));
  orrery_ring_header* ring = writer.claim_ring(1, [](uint32_t) { return true; });
  for (int i = 0; i < 10; ++i) writer.push(ring, collective_event(kNow, 1, 1));
  ring->consumed = 0xdeadbeef;
  CHECK(agent.drain(4, kNow, [](const orrery_event&) {}).events == 4);
  ring->consumed = 0;
  CHECK(agent.drain(1000, kNow, [](const orrery_event&) {}).events == 6);
  CHECK(ring->consumed == 10);
}

TEST_CASE("loss counters that run backwards or wrap are not believed as losses") {
  auto agent = AgentSegment::create(kShape).value();
  Mapping process(agent);
  orrery_ring_header* ring = ring_at(process.base, kShape, 2);
  const auto dropped = [&] { return agent.drain(10, kNow, [](const orrery_event&) {}).dropped; };
  ring->dropped = 100;
  CHECK(dropped() == 100);
  ring->dropped = 50;
  CHECK(dropped() == 0);
  ring->dropped = 51;
  CHECK(dropped() == 1);
}

TEST_CASE("an event that changes while it is checked is delivered as it was checked") {
  auto agent = AgentSegment::create({.ring_count = 1, .ring_events = 64, .flow_slots = 32}).value();
  Mapping process(agent);
  orrery_ring_header* ring = ring_at(process.base, agent.shape(), 0);
  std::atomic<bool> stop = false;
  std::thread attacker([&] {
    orrery_event* events = ring_events(ring);
    for (uint32_t i = 0; !stop; ++i)
      for (uint32_t slot = 0; slot < 64; ++slot) {
        // The halves of a good flow event and of a bad one, word by word.
        const orrery_event good = flow_event(1, static_cast<uint16_t>(i % 32), 1), bad = flow_event(1, 40000, 2);
        copy_words(&events[slot], i % 2 ? &good : &bad, sizeof(orrery_event));
        store_relaxed(&ring->produced, load_relaxed(&ring->produced) + 1);
      }
  });
  for (int i = 0; i < 20'000; ++i)
    agent.drain(64, kNow, [&](const orrery_event& event) {
      if (event.flow.slot >= 32 || !(event.flow.generation & 1)) {
        stop = true;
        attacker.join();
        FAIL("a flow event changed after it was checked");
      }
    });
  stop = true;
  attacker.join();
}

}  // namespace orrery::shm
