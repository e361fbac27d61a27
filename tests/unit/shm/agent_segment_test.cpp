#include "common/shm/agent_segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "common/shm/segment_writer.h"
#include "events.h"

namespace orrery::shm {
namespace {

const SegmentShape kSmall{.ring_count = 4, .ring_events = 8, .flow_slots = 16};
constexpr uint64_t kNow = 1'000'000;

// The process's view of an agent's segment: a mapping of its own, as after the handshake.
struct Process {
  explicit Process(const AgentSegment& agent) : bytes(agent.bytes()) {
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, agent.fd(), 0);
    REQUIRE(base != MAP_FAILED);
    REQUIRE(writer.open(base, bytes));
  }
  ~Process() { munmap(base, bytes); }
  void* base;
  size_t bytes;
  SegmentWriter writer;
};

const auto all_alive = [](uint32_t) { return true; };

std::vector<uint64_t> drain_bytes(AgentSegment& agent, DrainResult* result = nullptr, size_t max = 1000) {
  std::vector<uint64_t> bytes;
  DrainResult drained = agent.drain(max, kNow, [&](const orrery_event& e) { bytes.push_back(e.collective.bytes); });
  if (result) *result = drained;
  return bytes;
}

}  // namespace

TEST_CASE("what a process pushes the agent drains, in order, whatever the interleaving") {
  std::mt19937 random(GENERATE(1, 2, 3, 4, 5));
  auto agent = AgentSegment::create(kSmall).value();
  Process process(agent);
  orrery_ring_header* ring = process.writer.claim_ring(7, all_alive);
  std::deque<uint64_t> in_flight;
  uint64_t next = 0, drops = 0, reported_drops = 0;
  for (int step = 0; step < 2000; ++step) {
    if (random() % 3 != 0) {
      const bool pushed = process.writer.push(ring, collective_event(kNow, 1, ++next));
      REQUIRE(pushed == (in_flight.size() < kSmall.ring_events));
      if (pushed) in_flight.push_back(next);
      drops += !pushed;
    } else {
      const size_t max = random() % 12;
      DrainResult result;
      const auto bytes = drain_bytes(agent, &result, max);
      REQUIRE(bytes.size() == std::min(max, in_flight.size()));
      REQUIRE(result.more == (max < in_flight.size()));
      for (uint64_t value : bytes) {
        REQUIRE(value == in_flight.front());
        in_flight.pop_front();
      }
      reported_drops += result.dropped;
    }
  }
  DrainResult last;
  drain_bytes(agent, &last);
  CHECK(reported_drops + last.dropped == drops);
  CHECK(last.malformed == 0);
}

TEST_CASE("each thread gets its own ring and the next one is told that there is none") {
  auto agent = AgentSegment::create(kSmall).value();
  Process process(agent);
  std::vector<orrery_ring_header*> rings;
  for (uint32_t thread = 1; thread <= kSmall.ring_count; ++thread) {
    rings.push_back(process.writer.claim_ring(thread, all_alive));
    REQUIRE(rings.back() != nullptr);
    for (size_t i = 0; i + 1 < rings.size(); ++i) REQUIRE(rings[i] != rings.back());
  }
  CHECK(process.writer.claim_ring(2, all_alive) == rings[1]);
  CHECK(process.writer.claim_ring(99, all_alive) == nullptr);
  process.writer.count_no_ring();
  DrainResult result;
  drain_bytes(agent, &result);
  CHECK(result.no_ring == 1);
}

TEST_CASE("the ring of a thread that has died is taken over with what it holds") {
  auto agent = AgentSegment::create(kSmall).value();
  Process process(agent);
  orrery_ring_header* third = nullptr;
  for (uint32_t thread = 1; thread <= kSmall.ring_count; ++thread) {
    orrery_ring_header* ring = process.writer.claim_ring(thread, all_alive);
    if (thread == 3) third = ring;
  }
  process.writer.push(third, collective_event(kNow, 1, 30));
  CHECK(process.writer.claim_ring(99, [](uint32_t thread) { return thread != 3; }) == third);
  process.writer.push(third, collective_event(kNow, 1, 31));
  CHECK(drain_bytes(agent) == std::vector<uint64_t>{30, 31});
}

TEST_CASE("a busy ring does not keep the agent from the others") {
  auto agent = AgentSegment::create(kSmall).value();
  Process process(agent);
  for (uint32_t thread = 1; thread <= 4; ++thread) {
    orrery_ring_header* ring = process.writer.claim_ring(thread, all_alive);
    for (int i = 0; i < 8; ++i) process.writer.push(ring, collective_event(kNow, thread, thread));
  }
  std::vector<uint64_t> seen;
  for (int round = 0; round < 4; ++round)
    for (uint64_t value : drain_bytes(agent, nullptr, 8)) seen.push_back(value);
  REQUIRE(seen.size() == 32);
  for (uint64_t thread = 1; thread <= 4; ++thread) CHECK(std::count(seen.begin(), seen.end(), thread) == 8);
}

TEST_CASE("a flow slot is handed out once, counts, and is told apart from its next user") {
  auto agent = AgentSegment::create(kSmall).value();
  Process process(agent);
  const uint32_t slot = process.writer.claim_flow(5);
  REQUIRE(slot == 5);
  CHECK(process.writer.claim_flow(5) == 6);
  orrery_flow_counters* counters = process.writer.counters(slot);
  const uint32_t generation = counters->generation;
  counters->tx_bytes = 1234;
  REQUIRE(agent.read_flow(slot).has_value());
  CHECK(agent.read_flow(slot)->tx_bytes == 1234);
  process.writer.release_flow(slot, generation);
  process.writer.release_flow(slot, generation);
  CHECK_FALSE(agent.read_flow(slot).has_value());
  REQUIRE(process.writer.claim_flow(5) == 5);
  CHECK(agent.read_flow(slot)->generation == generation + 2);
  CHECK(agent.read_flow(slot)->tx_bytes == 0);
  CHECK_FALSE(agent.read_flow(kSmall.flow_slots).has_value());
}

TEST_CASE("when every flow slot is in use the next flow is told so") {
  auto agent = AgentSegment::create(kSmall).value();
  Process process(agent);
  for (uint32_t i = 0; i < kSmall.flow_slots; ++i) REQUIRE(process.writer.claim_flow(i * 7) != SegmentWriter::kNoSlot);
  CHECK(process.writer.claim_flow(3) == SegmentWriter::kNoSlot);
}

TEST_CASE("the process can neither grow nor shrink the segment nor lift its seals") {
  auto agent = AgentSegment::create(kSmall).value();
  CHECK(ftruncate(agent.fd(), 0) != 0);
  CHECK(ftruncate(agent.fd(), static_cast<off_t>(agent.bytes()) * 2) != 0);
  CHECK(fcntl(agent.fd(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("a segment whose header does not match its size is not used") {
  auto agent = AgentSegment::create(kSmall).value();
  Process process(agent);
  auto* header = static_cast<orrery_segment_header*>(process.base);
  SegmentWriter writer;
  CHECK_FALSE(writer.open(process.base, process.bytes - 1));
  CHECK_FALSE(writer.open(process.base, 16));
  for (uint32_t* field : {&header->abi_version, &header->header_bytes, &header->ring_count, &header->ring_events,
                          &header->ring_bytes, &header->flow_slots}) {
    const uint32_t saved = *field;
    for (uint32_t wrong : {0u, saved + 1, 0x80000000u, 0xffffffffu}) {
      *field = wrong;
      CHECK_FALSE(writer.open(process.base, process.bytes));
    }
    *field = saved;
  }
  CHECK(writer.open(process.base, process.bytes));
}

TEST_CASE("a shape that cannot be laid out is refused with the reason") {
  for (SegmentShape shape : {SegmentShape{0, 8, 8}, SegmentShape{1, 7, 8}, SegmentShape{1, 8, 0},
                             SegmentShape{1, 8, 70000}, SegmentShape{4096, 1u << 20, 8}}) {
    const auto result = AgentSegment::create(shape);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == ErrorCode::kInvalidArgument);
  }
}

}  // namespace orrery::shm
