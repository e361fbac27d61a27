#include "agent/collect/collector.h"

#include <catch2/catch.hpp>

#include "tests/fakes/fake_process.h"

using namespace orrery;
using namespace orrery::collect;
using test::FakeProcess;
using test::tcp_flow;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr int64_t kTai = 37'000'000'000;  // TAI minus monotonic, in these tests

HostView own_view() {
  HostView view;
  view.is_local = [](const IpAddress& address) { return address == IpAddress::parse("10.0.0.1").value(); };
  return view;
}

// A collector with processes attached, and a clock that the test moves.
struct Host {
  explicit Host(const Limits& limits = {}, HostView view = own_view())
      : collector("h1", limits, {}, std::move(view), metrics) {}

  uint64_t attach() {
    auto segment = shm::AgentSegment::create({.ring_count = 4, .ring_events = 256, .flow_slots = 16}).value();
    const int fd = segment.fd();
    const size_t bytes = segment.bytes();
    process = std::make_unique<FakeProcess>(fd, bytes);
    return collector.attach(std::move(segment)).value();
  }
  ProcessCollector::Outcome collect(uint64_t number) { return collector.collect(number, now, kTai); }
  msg::IntentWindow window(bool urgent = false) { return collector.take_window(now, kTai, {}, urgent); }

  telemetry::Metrics metrics;
  Collector collector;
  std::unique_ptr<FakeProcess> process;
  uint64_t now = 5'000'000'000;
};

uint64_t tai(uint64_t monotonic_ns) {
  return monotonic_ns + static_cast<uint64_t>(kTai);
}

}  // namespace

TEST_CASE("a communicator is announced once, at once, with the rank's address", "[collect]") {
  const IpAddress nic = IpAddress::parse("10.0.0.1").value();
  HostView view = own_view();
  view.nic_address = [nic] { return nic; };
  Host host({}, view);
  const uint64_t number = host.attach();
  host.process->comm(ORRERY_EVENT_COMM_INIT, 42, 3, 16, host.now - 10);
  const auto outcome = host.collect(number);
  CHECK(outcome.announced);
  CHECK(outcome.communicators_changed);
  const msg::IntentWindow window = host.window(true);
  CHECK(window.urgent);
  CHECK(window.host == "h1");
  // The first window is also a heartbeat, which states the communicator again.
  REQUIRE(window.communicators.size() == 2);
  CHECK(window.communicators[0] ==
        msg::CommunicatorEvent{msg::CommunicatorEvent::Kind::kAnnounced, 42, 0, 3, 16, number, nic});
  host.process->comm(ORRERY_EVENT_COMM_READY, 42, 3, 16, host.now - 5);
  CHECK_FALSE(host.collect(number).announced);
  const msg::IntentWindow next = host.window();
  REQUIRE(next.communicators.size() == 1);
  CHECK(next.communicators[0].kind == msg::CommunicatorEvent::Kind::kReady);
  CHECK(next.sequence == window.sequence + 1);
  CHECK(next.start_tai_ns == window.start_tai_ns + window.length_ns);
}

TEST_CASE("a collective is told when called and again when its bytes have moved", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  host.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, host.now - 100);
  const uint16_t slot = host.process->flow(tcp_flow("10.0.0.1", 40000, "10.0.0.2", 5000), host.now - 90);
  const uint64_t called = host.now - 80;
  host.process->collective(42, 1 << 20, 1, called);
  host.collect(number);
  const msg::IntentWindow before = host.window();
  REQUIRE(before.intents.size() == 1);
  CHECK(before.intents[0].called_tai_ns == tai(called));
  CHECK(before.intents[0].first_byte_tai_ns == 0);
  REQUIRE(before.flows.size() == 1);
  CHECK(before.flows[0].kind == msg::FlowReport::Kind::kBorn);
  CHECK(before.flows[0].comm_id == 42);

  const uint64_t first = host.now + kMs, last = host.now + 8 * kMs;
  host.now += 10 * kMs;
  host.process->sent(slot, 1 << 20, first, last);
  CHECK(host.collect(number).active);
  host.now += 100 * kMs;
  host.collect(number);
  const msg::IntentWindow after = host.window();
  REQUIRE(after.intents.size() == 1);
  CHECK(after.intents[0].sequence == before.intents[0].sequence);
  CHECK(after.intents[0].first_byte_tai_ns == tai(first));
  CHECK(after.intents[0].last_byte_tai_ns == tai(last));
  REQUIRE(after.flows.size() == 1);
  CHECK(after.flows[0].kind == msg::FlowReport::Kind::kProgress);
  CHECK(after.flows[0].tx_bytes == 1 << 20);
  CHECK(after.flows[0].bursts == 1);
}

TEST_CASE("progress of a flow is told at most once in its period", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  const uint16_t slot = host.process->flow(tcp_flow("10.0.0.1", 40000, "10.0.0.2", 5000), host.now - 90);
  host.collect(number);
  host.window();
  size_t reports = 0;
  for (int i = 0; i < 100; ++i) {
    host.now += 10 * kMs;
    host.process->sent(slot, 1000, host.now - kMs, host.now);
    host.collect(number);
    if (host.collector.window_due(host.now)) reports += host.window().flows.size();
  }
  CHECK(reports <= 11);
  CHECK(reports >= 9);
}

TEST_CASE("a flow's last bytes are in the report of its end", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  const uint16_t slot = host.process->flow(tcp_flow("10.0.0.1", 40000, "10.0.0.2", 5000), host.now - 90);
  host.collect(number);
  host.window();
  host.process->sent(slot, 777, host.now - 2, host.now - 1);
  host.process->flow_gone(slot, host.now);
  host.collect(number);
  const msg::IntentWindow window = host.window();
  REQUIRE(window.flows.size() == 1);
  CHECK(window.flows[0].kind == msg::FlowReport::Kind::kGone);
  CHECK(window.flows[0].tx_bytes == 777);
}

TEST_CASE("when a process goes, its flows and communicators end", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  host.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, host.now - 100);
  host.process->flow(tcp_flow("10.0.0.1", 40000, "10.0.0.2", 5000), host.now - 90);
  host.collect(number);
  host.window();
  host.process->collective(42, 5, 1, host.now);  // not drained yet
  host.collector.detach(number, host.now, kTai);
  const msg::IntentWindow window = host.window();
  CHECK(window.intents.size() == 1);
  REQUIRE(window.flows.size() == 1);
  CHECK(window.flows[0].kind == msg::FlowReport::Kind::kGone);
  REQUIRE(window.communicators.size() == 1);
  CHECK(window.communicators[0].kind == msg::CommunicatorEvent::Kind::kGone);
  CHECK(host.collector.size() == 0);
}

TEST_CASE("with nothing new a window is due once a second and states the communicators again", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  host.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, host.now - 100);
  host.collect(number);
  host.window();
  CHECK_FALSE(host.collector.window_due(host.now + 999 * kMs));
  host.now += 1000 * kMs;
  REQUIRE(host.collector.window_due(host.now));
  const msg::IntentWindow heartbeat = host.window();
  REQUIRE(heartbeat.communicators.size() == 1);
  CHECK(heartbeat.communicators[0].comm_id == 42);
  CHECK(heartbeat.intents.empty());
}

TEST_CASE("a flow is joined to the plan's flow only when the plan has it", "[collect]") {
  HostView view = own_view();
  view.is_planned = [](uint64_t, uint64_t flow_id, const FiveTuple&) { return flow_id == 9; };
  Host host({}, view);
  const uint64_t number = host.attach();
  for (const uint64_t claimed : {9, 10}) {
    const uint16_t slot = host.process->flow(tcp_flow("10.0.0.1", 40000, "10.0.0.2", 5000), host.now - 90);
    host.process->counters(slot).plan_flow_id = claimed;
  }
  host.collect(number);
  const msg::IntentWindow window = host.window();
  REQUIRE(window.flows.size() == 2);
  CHECK(window.flows[0].flow_id == 9);
  CHECK(window.flows[1].flow_id == 0);
}

TEST_CASE("a process cannot report flows of addresses that are not the host's, and loopback flows are nobody's matter",
          "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  host.process->flow(tcp_flow("10.0.0.9", 40000, "10.0.0.2", 5000), host.now - 90);
  host.process->flow(tcp_flow("10.0.0.1", 40000, "10.0.0.1", 5000), host.now - 90);
  host.process->flow(tcp_flow("10.0.0.1", 40001, "10.0.0.2", 5000), host.now - 90);
  host.collect(number);
  const msg::IntentWindow window = host.window();
  REQUIRE(window.flows.size() == 1);
  CHECK(window.flows[0].tuple.src_port == 40001);
  CHECK(window.losses.malformed == 1);
}

TEST_CASE("processes over the bound are refused with the setting to raise", "[collect]") {
  Limits limits;
  limits.processes = 1;
  Host host(limits);
  host.attach();
  const auto second = host.collector.attach(shm::AgentSegment::create({1, 2, 1}).value());
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kExhausted);
  CHECK(second.error().message.find("limits.processes_count") != std::string::npos);
}

TEST_CASE("a flow is told of by the process that told of it first, until it is gone", "[collect]") {
  Host host;
  const FiveTuple tuple = tcp_flow("10.0.0.1", 40000, "10.0.0.2", 5000);
  const uint64_t owner = host.attach();
  auto owner_process = std::move(host.process);
  const uint16_t slot = owner_process->flow(tuple, host.now - 90);
  host.collect(owner);
  host.window();

  const uint64_t liar = host.attach();
  const uint16_t forged = host.process->flow(tuple, host.now - 80);
  host.process->flow_gone(forged, host.now - 70);
  host.collect(liar);
  const msg::IntentWindow window = host.window();
  CHECK(window.flows.empty());
  CHECK(window.losses.malformed == 1);

  owner_process->flow_gone(slot, host.now);
  host.collect(owner);
  host.process->flow(tuple, host.now);
  host.collect(liar);
  CHECK(host.window().flows.size() == 2);  // the end of the first, the birth of the second

  host.collector.detach(liar, host.now, kTai);
  owner_process->flow(tuple, host.now);
  host.collect(owner);
  CHECK(host.window().flows.size() == 2);
}
