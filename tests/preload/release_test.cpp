// Release offsets: a send may be told EAGAIN only where the program can bear it, and never for long.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;

constexpr uint64_t kMillisecond = 1'000'000;

std::vector<orrery_plan_entry> plan_with_offset(uint64_t offset_ns) {
  std::vector<orrery_plan_entry> plan;
  for (uint8_t host : {1, 2}) {
    orrery_plan_entry entry{};
    const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, host};
    std::memcpy(entry.remote_address, peer, 16);
    entry.flow_id = host;
    entry.ordinal = ORRERY_PLAN_ANY_ORDINAL;
    entry.protocol = 6;
    entry.dscp = 0xff;
    entry.release_offset_ns = offset_ns;
    plan.push_back(entry);
  }
  return plan;
}

struct Held {
  int status = -1;
  std::string out;
  long refusals = -1;
  long first_ms = -1;  // from the collective to the answer of the first send
  uint64_t held_sends = 0, held_ns = 0, tx_bytes = 0;
};

Held hold(const std::string& how, uint64_t offset_ns, uint32_t cap_ns, fakes::FakeAgentOptions options = {}) {
  const std::string path = scratch_socket_path();
  options.plan = plan_with_offset(offset_ns);
  options.hold_cap_ns = cap_ns;
  FakeAgent agent(path, options);
  AttachedProbe probe(agent, path, {"hold", how});
  Held held;
  probe.program().wait_for_output("sent ok");
  agent.wait_for([&] { return agent.events_of(ORRERY_EVENT_FLOW_BORN).size() == 2 || agent.hang_ups() > 0; });
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_FLOW_BORN))
    if (const auto sample = agent.flow(event.flow.slot)) {
      held.held_sends += sample->held_sends;
      held.held_ns += sample->held_ns;
      held.tx_bytes += sample->tx_bytes;
    }
  const auto result = probe.finish();
  held.status = result.status;
  held.out = result.out;
  if (held.status != 0) return held;
  held.refusals = values_of(result.out, "eagain").at(0);
  held.first_ms = values_of(result.out, "first").at(0);
  return held;
}

// A program that comes to its first send only when that may go says nothing about holding: it is run again.
Held hold_until_offset(const std::string& how, long offset_ms) {
  for (;;) {
    const Held held = hold(how, static_cast<uint64_t>(offset_ms) * kMillisecond, 2'000'000'000);
    if (held.status != 0 || held.first_ms < offset_ms) return held;
  }
}

#define SKIP_WITHOUT_NAMESPACES(held)                      \
  if ((held).status == 77) {                               \
    WARN("network namespaces are not available: skipped"); \
    return;                                                \
  }

}  // namespace

TEST_CASE("a non-blocking send before its time is told EAGAIN until its time has come") {
  for (const char* how : {"nonblocking", "dontwait", "accepted"}) {
    const Held held = hold_until_offset(how, 600);
    SKIP_WITHOUT_NAMESPACES(held);
    INFO(how << " " << held.out);
    REQUIRE(held.status == 0);
    CHECK(held.refusals > 0);
    CHECK(held.held_sends == static_cast<uint64_t>(held.refusals));
    CHECK(held.held_ns > 0);
    CHECK(held.tx_bytes == 1);
  }
}

TEST_CASE("no send is held longer than the cap, whatever the plan says") {
  const Held held = hold("nonblocking", 3'600'000 * kMillisecond, 20 * kMillisecond);
  SKIP_WITHOUT_NAMESPACES(held);
  REQUIRE(held.status == 0);
  CHECK(held.refusals > 0);
  CHECK(held.held_ns >= 20 * kMillisecond);
}

TEST_CASE("a blocking send and an edge-triggered socket never see EAGAIN of ours") {
  for (const char* how : {"blocking", "edge", "edge-of-copy", "edge-of-fcntl-copy"}) {
    const Held held = hold(how, 3'600'000 * kMillisecond, 500 * kMillisecond);
    SKIP_WITHOUT_NAMESPACES(held);
    INFO(how);
    REQUIRE(held.status == 0);
    CHECK(held.refusals == 0);
    CHECK(held.held_sends == 0);
  }
}

TEST_CASE("what is not the connection any more is never told EAGAIN of ours") {
  const Held held = hold("taken-over", 3'600'000 * kMillisecond, 500 * kMillisecond);
  SKIP_WITHOUT_NAMESPACES(held);
  REQUIRE(held.status == 0);
  CHECK(held.refusals == 0);
}

TEST_CASE("a flow is held once for a collective, not at each of its bursts") {
  const Held held = hold("two-bursts", 3'600'000 * kMillisecond, 20 * kMillisecond);
  SKIP_WITHOUT_NAMESPACES(held);
  REQUIRE(held.status == 0);
  CHECK(held.refusals == 0);
}

TEST_CASE("an event loop that is held back sends all its data") {
  const Held held = hold_until_offset("level", 600);
  SKIP_WITHOUT_NAMESPACES(held);
  REQUIRE(held.status == 0);
  CHECK(held.refusals > 0);
  CHECK(held.tx_bytes == 1 << 20);
}

TEST_CASE("without an offset, or with an expired plan, nothing is held") {
  for (const auto& [offset, lease] :
       {std::pair<uint64_t, uint64_t>{0, 60'000 * kMillisecond}, {3'600'000 * kMillisecond, 1}}) {
    const Held held = hold("nonblocking", offset, 500 * kMillisecond, {.lease_ns = lease});
    SKIP_WITHOUT_NAMESPACES(held);
    REQUIRE(held.status == 0);
    CHECK(held.refusals == 0);
  }
}

}  // namespace orrery
