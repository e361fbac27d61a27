// A container may write anything at any time into its segment: the agent stays up, bounded, and the others are not
// disturbed.
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>

#include "agent/collect/collector.h"
#include "tests/fakes/fake_process.h"

using namespace orrery;
using namespace orrery::collect;
using test::FakeProcess;

namespace {

struct Attached {
  Attached(Collector& collector) {
    auto segment = shm::AgentSegment::create({.ring_count = 4, .ring_events = 64, .flow_slots = 32}).value();
    const int fd = segment.fd();
    const size_t bytes = segment.bytes();
    process = std::make_unique<FakeProcess>(fd, bytes);
    number = collector.attach(std::move(segment)).value();
  }
  std::unique_ptr<FakeProcess> process;
  uint64_t number = 0;
};

Limits small_limits() {
  Limits limits;
  limits.communicators_per_process = 8;
  limits.open_collectives_per_process = 8;
  limits.events_per_drain = 128;
  limits.intents_per_window = 64;
  limits.flows_per_window = 64;
  limits.communicators_per_window = 64;
  return limits;
}

}  // namespace

TEST_CASE("random bytes all over the segment leave the agent up, its reports bounded and the neighbour's right",
          "[collect]") {
  std::mt19937_64 random(GENERATE(1, 2, 3, 4));
  telemetry::Metrics metrics;
  const Limits limits = small_limits();
  HostView view;
  // Half of all addresses are the host's own.
  view.is_local = [](const IpAddress& address) { return (address.bytes()[15] & 1) != 0; };
  Collector collector("h1", limits, {}, view, metrics);
  Attached hostile(collector), good(collector);
  uint64_t now = 5'000'000'000;
  good.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, now);
  collector.collect(good.number, now, 0);
  collector.take_window(now, 0, {}, false);
  for (int round = 0; round < 300; ++round) {
    now += 10'000'000;
    auto* const words = static_cast<uint64_t*>(hostile.process->base());
    const size_t count = hostile.process->bytes() / sizeof(uint64_t);
    for (int i = 0; i < 400; ++i) words[random() % count] = random() % 3 == 0 ? random() % 64 : random();
    good.process->collective(42, 1000, static_cast<uint32_t>(round), now);
    collector.collect(hostile.number, now, 0);
    collector.collect(good.number, now, 0);
    const msg::IntentWindow window = collector.take_window(now, 0, {}, false);
    REQUIRE(window.flows.size() <= limits.flows_per_window);
    REQUIRE(window.intents.size() <= limits.intents_per_window);
    REQUIRE(window.communicators.size() <= limits.communicators_per_window);
    size_t own = 0;
    for (const msg::Intent& intent : window.intents) own += intent.process == good.number && intent.bytes == 1000;
    REQUIRE(own == 1);
    // What goes on the wire must be what a controller can read.
    const auto frame = msg::encode(window);
    REQUIRE(frame);
    REQUIRE(msg::decode_intent_window(*frame));
  }
  collector.detach(hostile.number, now, 0);
  CHECK(collector.take_window(now, 0, {}, false).losses.malformed > 0);
}

TEST_CASE("well-formed lies are bounded: endless communicators, collectives and flows", "[collect]") {
  telemetry::Metrics metrics;
  const Limits limits = small_limits();
  Collector collector("h1", limits, {}, {}, metrics);
  Attached hostile(collector);
  uint64_t now = 5'000'000'000;
  size_t intents = 0;
  for (uint64_t round = 1; round <= 200; ++round) {
    now += 1'000'000;
    for (uint64_t i = 0; i < 20; ++i) {
      hostile.process->comm(ORRERY_EVENT_COMM_INIT, round * 100 + i, 0, 2, now);
      hostile.process->collective(101, 1, static_cast<uint32_t>(i), now);
    }
    collector.collect(hostile.number, now, 0);
    intents += collector.take_window(now, 0, {}, false).intents.size();
  }
  CHECK(collector.find(hostile.number)->communicators().size() == limits.communicators_per_process);
  CHECK(intents > 0);
  CHECK(metrics.scrape().find("orrery_collect_over_limit_reports_total 0") == std::string::npos);
}

TEST_CASE("a process that floods the window leaves its neighbour's share to it", "[collect]") {
  telemetry::Metrics metrics;
  const Limits limits = small_limits();
  Collector collector("h1", limits, {}, {}, metrics);
  Attached hostile(collector), good(collector);
  const uint64_t now = 5'000'000'000;
  collector.take_window(now, 0, {}, false);
  for (Attached* attached : {&hostile, &good}) attached->process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, now);
  for (int round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < 50; ++i) hostile.process->collective(42, 1, i, now);
    collector.collect(hostile.number, now, 0);  // as often as it rings its doorbell
  }
  for (uint32_t i = 0; i < 20; ++i) good.process->collective(42, 1000, i, now);
  collector.collect(good.number, now, 0);
  size_t own = 0;
  for (const msg::Intent& intent : collector.take_window(now, 0, {}, false).intents)
    own += intent.process == good.number;
  CHECK(own == 20);
}

TEST_CASE("counters that run backwards or claim the future are not believed", "[collect]") {
  telemetry::Metrics metrics;
  HostView view;
  view.is_local = [](const IpAddress& address) { return address == IpAddress::parse("10.0.0.1").value(); };
  Collector collector("h1", {}, {}, view, metrics);
  Attached process(collector);
  uint64_t now = 5'000'000'000;
  process.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, now);
  process.process->collective(42, 1000, 1, now);
  const uint16_t slot = process.process->flow(test::tcp_flow("10.0.0.1", 4, "10.0.0.2", 5), now);
  process.process->sent(slot, 5000, UINT64_MAX - 5, UINT64_MAX);
  collector.collect(process.number, now, 0);
  process.process->counters(slot).tx_bytes = 10;
  now += 200'000'000;
  collector.collect(process.number, now, 0);
  const msg::IntentWindow window = collector.take_window(now, 0, {}, false);
  for (const msg::FlowReport& flow : window.flows) CHECK(flow.tx_bytes == 5000);
  REQUIRE(window.intents.size() == 2);
  CHECK(window.intents[1].last_byte_tai_ns <= now);
  CHECK(window.intents[1].first_byte_tai_ns <= window.intents[1].last_byte_tai_ns);
}
