#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "common/shm/agent_segment.h"
#include "common/shm/segment_writer.h"
#include "events.h"

namespace orrery::shm {
namespace {

constexpr uint64_t kNow = 1'000'000'000;
constexpr uint64_t kEventsPerWriter = 100'000;

uint64_t checksum(uint64_t writer, uint64_t number) {
  return (writer << 32 ^ number) * 0x9e3779b97f4a7c15ull >> 20;
}

// Pushes numbered events, retrying what a full ring refuses, so that nothing may be missing at the other end.
void write_all(SegmentWriter& segment, uint32_t writer) {
  orrery_ring_header* ring = segment.claim_ring(writer, [](uint32_t) { return true; });
  for (uint64_t number = 1; number <= kEventsPerWriter; ++number) {
    orrery_event event = collective_event(number, writer, checksum(writer, number));
    while (!segment.push(ring, event)) std::this_thread::yield();
  }
}

// Drains until every writer's last event has come. Returns the first fault found, or nothing.
std::string read_all(AgentSegment& agent, uint32_t writers) {
  std::vector<uint64_t> last(writers + 1);
  uint64_t missing = writers * kEventsPerWriter;
  std::string fault;
  while (missing != 0 && fault.empty()) {
    const DrainResult result = agent.drain(5000, kNow, [&](const orrery_event& event) {
      const uint64_t writer = event.collective.comm_id;
      if (writer < 1 || writer > writers)
        fault = "unknown writer";
      else if (event.time_ns != ++last[writer])
        fault = "events out of order";
      else if (event.collective.bytes != checksum(writer, event.time_ns))
        fault = "torn event";
      --missing;
    });
    if (result.malformed != 0) fault = "malformed event";
    if (result.resyncs != 0) fault = "lost its place";
    if (result.events == 0) std::this_thread::yield();
  }
  return fault;
}

}  // namespace

TEST_CASE("events pass whole and in order between threads") {
  auto agent = AgentSegment::create({.ring_count = 4, .ring_events = 256, .flow_slots = 1}).value();
  void* base = mmap(nullptr, agent.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, agent.fd(), 0);
  REQUIRE(base != MAP_FAILED);
  SegmentWriter segment;
  REQUIRE(segment.open(base, agent.bytes()));
  std::vector<std::thread> writers;
  for (uint32_t writer = 1; writer <= 4; ++writer) writers.emplace_back([&, writer] { write_all(segment, writer); });
  const std::string fault = read_all(agent, 4);
  if (!fault.empty()) FAIL(fault);
  for (std::thread& writer : writers) writer.join();
  munmap(base, agent.bytes());
}

TEST_CASE("events pass whole and in order between processes") {
  auto agent = AgentSegment::create({.ring_count = 4, .ring_events = 256, .flow_slots = 1}).value();
  std::vector<pid_t> children;
  for (uint32_t writer = 1; writer <= 2; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      void* base = mmap(nullptr, agent.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, agent.fd(), 0);
      SegmentWriter segment;
      if (base == MAP_FAILED || !segment.open(base, agent.bytes())) _exit(1);
      write_all(segment, writer);
      _exit(0);
    }
    REQUIRE(child > 0);
    children.push_back(child);
  }
  CHECK(read_all(agent, 2) == "");
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

TEST_CASE("no two threads ever hold one flow slot") {
  auto agent = AgentSegment::create({.ring_count = 1, .ring_events = 2, .flow_slots = 8}).value();
  void* base = mmap(nullptr, agent.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, agent.fd(), 0);
  REQUIRE(base != MAP_FAILED);
  SegmentWriter segment;
  REQUIRE(segment.open(base, agent.bytes()));
  std::atomic<int> holders[8] = {};
  std::atomic<int> clashes = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        const uint32_t slot = segment.claim_flow(t * 3 + static_cast<uint32_t>(i));
        if (slot == SegmentWriter::kNoSlot) continue;
        if (holders[slot].fetch_add(1) != 0) ++clashes;
        const uint32_t generation = load_relaxed(&segment.counters(slot)->generation);
        holders[slot].fetch_sub(1);
        segment.release_flow(slot, generation);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(clashes == 0);
  munmap(base, agent.bytes());
}

}  // namespace orrery::shm
