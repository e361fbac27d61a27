// Queue pairs as flows: what the agent makes of QP_READY, QP_MOVED, their counters, and of traffic without the CPU.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "agent/collect/collector.h"
#include "tests/fakes/fake_process.h"

using namespace orrery;
using namespace orrery::collect;
using test::FakeProcess;
using Kind = msg::FlowReport::Kind;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint16_t kSport = 49441, kOther = 50001;

struct Host {
  uint64_t attach(bool qp_counters = true) {
    auto segment =
        shm::AgentSegment::create({.ring_count = 2, .ring_events = 256, .flow_slots = 16, .qp_counters = qp_counters})
            .value();
    const int fd = segment.fd();
    const size_t bytes = segment.bytes();
    process = std::make_unique<FakeProcess>(fd, bytes);
    return collector.attach(std::move(segment)).value();
  }
  std::vector<msg::FlowReport> flows(uint64_t number) {
    collector.collect(number, now, 0);
    return collector.take_window(now, 0, {}, false).flows;
  }
  uint16_t queue_pair(uint32_t qpn, uint16_t sport = kSport) {
    return process->queue_pair("10.0.0.1", "10.0.0.2", sport, qpn, now - 90);
  }
  double metric(const std::string& name) {
    const std::string text = metrics.scrape();
    const auto at = text.rfind("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  static HostView view() {
    HostView view;
    view.is_local = [](const IpAddress& address) { return address == IpAddress::parse("10.0.0.1").value(); };
    return view;
  }
  telemetry::Metrics metrics;
  Collector collector{"h1", {}, {}, view(), metrics};
  std::unique_ptr<FakeProcess> process;
  uint64_t now = 5'000'000'000;
};

}  // namespace

TEST_CASE("a queue pair is one flow, born with its numbers, device and what it can do", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  host.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, host.now - 100);
  host.queue_pair(17);
  const auto flows = host.flows(number);
  REQUIRE(flows.size() == 1);
  CHECK(flows[0].kind == Kind::kBorn);
  CHECK(flows[0].comm_id == 42);
  CHECK(flows[0].tuple.src_port == kSport);
  CHECK(flows[0].tuple.dst_port == 4791);
  REQUIRE(flows[0].queue_pair);
  CHECK(flows[0].queue_pair->qpn == 17);
  CHECK(flows[0].queue_pair->dest_qpn == 18);
  CHECK(flows[0].queue_pair->device == "rxe0");
  CHECK(flows[0].queue_pair->flags == (ORRERY_QP_CAN_MOVE | ORRERY_QP_CAN_DEFER));
  CHECK(host.metric("orrery_collect_live_queue_pairs") == 1);
}

TEST_CASE("a queue pair whose QP_READY was lost is a flow all the same, a little later", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  FiveTuple tuple = test::tcp_flow("10.0.0.1", kSport, "10.0.0.2", 4791);
  tuple.protocol = IPPROTO_UDP;
  host.process->flow(tuple, host.now - 90);
  CHECK(host.flows(number).empty());
  host.now += 100 * kMs;
  const auto flows = host.flows(number);
  REQUIRE(flows.size() == 1);
  CHECK(flows[0].kind == Kind::kBorn);
  CHECK_FALSE(flows[0].queue_pair);
}

TEST_CASE("queue pairs that share a source port are two flows, and one process's end leaves the other's", "[collect]") {
  Host host;
  const uint64_t first = host.attach();
  host.queue_pair(17);
  host.queue_pair(19);
  CHECK(host.flows(first).size() == 2);
  auto first_process = std::move(host.process);
  const uint64_t second = host.attach();
  host.queue_pair(21);
  CHECK(host.flows(second).size() == 1);
  host.collector.detach(first, host.now, 0);
  const auto window = host.collector.take_window(host.now, 0, {}, false);
  CHECK(window.flows.size() == 2);
  CHECK(window.losses.malformed == 0);
  CHECK(host.metric("orrery_collect_live_queue_pairs") == 1);
}

TEST_CASE("a queue pair is told of by the process that told of it first", "[collect]") {
  Host host;
  const uint64_t owner = host.attach();
  host.queue_pair(17);
  host.flows(owner);
  auto owner_process = std::move(host.process);
  const uint64_t liar = host.attach();
  host.queue_pair(17);
  CHECK(host.flows(liar).empty());
  const uint16_t own = host.queue_pair(23, kOther);
  CHECK(host.flows(liar).size() == 1);
  // Moving its own onto the other's flow costs it its own.
  host.process->queue_pair_event(ORRERY_EVENT_QP_MOVED, own, kSport, 17, host.now);
  const auto flows = host.flows(liar);
  REQUIRE(flows.size() == 1);
  CHECK(flows[0].kind == Kind::kGone);
  CHECK(flows[0].queue_pair->qpn == 23);
}

TEST_CASE("a queue pair that moves is gone from its old source port and born at the new one with its totals",
          "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  const uint16_t slot = host.queue_pair(17);
  host.flows(number);
  host.process->sent(slot, 1 << 20, host.now, host.now);
  host.process->queue_pair_event(ORRERY_EVENT_QP_MOVED, slot, kOther, 17, host.now);
  const auto flows = host.flows(number);
  REQUIRE(flows.size() == 2);
  CHECK(flows[0].kind == Kind::kGone);
  CHECK(flows[0].tuple.src_port == kSport);
  CHECK(flows[0].tx_bytes == 1 << 20);
  CHECK(flows[1].kind == Kind::kBorn);
  CHECK(flows[1].tuple.src_port == kOther);
  CHECK(flows[1].tx_bytes == 1 << 20);
  CHECK(flows[1].queue_pair->moves == 1);
  CHECK(host.metric("orrery_collect_moved_queue_pairs_total") == 1);
  // The old port is free for another's.
  auto first_process = std::move(host.process);
  const uint64_t second = host.attach();
  host.queue_pair(17);
  CHECK(host.flows(second).size() == 1);
}

TEST_CASE("a queue pair made ready again is the same flow unless its source port is another", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  const uint16_t slot = host.queue_pair(17);
  host.flows(number);
  host.process->queue_pair_event(ORRERY_EVENT_QP_READY, slot, kSport, 17, host.now);
  CHECK(host.flows(number).empty());
  host.process->queue_pair_event(ORRERY_EVENT_QP_READY, slot, kOther, 17, host.now);
  const auto flows = host.flows(number);
  REQUIRE(flows.size() == 2);
  CHECK(flows[1].queue_pair->moves == 0);  // it did not run meanwhile
}

TEST_CASE("the counters of a queue pair are reported with its bytes, and at its end", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  const uint16_t slot = host.queue_pair(17);
  host.flows(number);
  orrery_qp_counters& counters = *host.process->writer().qp_counters(slot);
  counters.posted_sends = 10;
  counters.send_completions = 8;
  counters.deferred = 5;
  counters.drained_early = 2;
  counters.completion_errors = 1;
  counters.failed_posts = 3;
  host.now += 200 * kMs;
  auto flows = host.flows(number);
  REQUIRE(flows.size() == 1);
  CHECK(flows[0].kind == Kind::kProgress);
  CHECK(flows[0].queue_pair->posted_sends == 10);
  CHECK(flows[0].queue_pair->completed_sends == 8);
  CHECK(flows[0].queue_pair->deferred_sends == 5);
  CHECK(flows[0].queue_pair->drained_early == 2);
  CHECK(flows[0].queue_pair->completion_errors == 1);
  CHECK(flows[0].queue_pair->failed_posts == 3);
  counters.posted_sends = 4;  // backwards: ignored
  counters.deferred = 7;
  host.process->flow_gone(slot, host.now);
  flows = host.flows(number);
  REQUIRE(flows.size() == 1);
  CHECK(flows[0].kind == Kind::kGone);
  CHECK(flows[0].queue_pair->posted_sends == 10);
  CHECK(flows[0].queue_pair->deferred_sends == 7);
  CHECK(host.metric("orrery_collect_deferred_sends_total") == 7);
  CHECK(host.metric("orrery_collect_early_drained_sends_total") == 2);
}

TEST_CASE("counts that a process makes up do not overflow the agent's", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  for (uint32_t qpn = 17; qpn < 20; ++qpn) {
    const uint16_t slot = host.queue_pair(qpn);
    host.process->writer().qp_counters(slot)->deferred = UINT64_MAX;
  }
  host.flows(number);
  host.now += 200 * kMs;
  host.flows(number);
  CHECK(host.metric("orrery_collect_deferred_sends_total") > 1.8e19);
}

TEST_CASE("queue pair events for connections, unknown slots and old generations change nothing", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  const uint16_t tcp = host.process->flow(test::tcp_flow("10.0.0.1", 40000, "10.0.0.2", 5000), host.now - 90);
  const uint16_t pair = host.queue_pair(17);
  CHECK(host.flows(number).size() == 2);
  host.process->queue_pair_event(ORRERY_EVENT_QP_MOVED, tcp, kOther, 5, host.now);
  host.process->queue_pair_event(ORRERY_EVENT_QP_READY, 9, kOther, 5, host.now);
  orrery_event old = FakeProcess::make(ORRERY_EVENT_QP_MOVED, host.now);
  old.qp.slot = pair;
  old.qp.generation = host.process->counters(pair).generation + 2;
  old.qp.qpn = 17;
  old.qp.udp_sport = kOther;
  host.process->push(old);
  CHECK(host.flows(number).empty());
}

TEST_CASE("a device name cannot carry what a terminal or a decoder would trip over", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  FiveTuple tuple = test::tcp_flow("10.0.0.1", kSport, "10.0.0.2", 4791);
  tuple.protocol = IPPROTO_UDP;
  const uint16_t slot = host.process->flow(tuple, host.now - 90);
  orrery_event event = FakeProcess::make(ORRERY_EVENT_QP_READY, host.now - 80);
  event.qp.slot = slot;
  event.qp.generation = host.process->counters(slot).generation;
  event.qp.qpn = 17;
  event.qp.udp_sport = kSport;
  std::memcpy(event.qp.device, "a\033[2J\xff z", 9);
  host.process->push(event);
  const auto flows = host.flows(number);
  REQUIRE(flows.size() == 1);
  CHECK(flows[0].queue_pair->device == "a??2J??z");
}

TEST_CASE("a communicator that may send without the CPU says so once, and in every heartbeat", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  host.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, host.now - 100);
  host.collector.collect(number, host.now, 0);
  host.collector.take_window(host.now, 0, {}, false);
  for (int i = 0; i < 3; ++i) host.process->comm(ORRERY_EVENT_DEVICE_TRAFFIC, 42, 0, 2, host.now);
  host.process->comm(ORRERY_EVENT_DEVICE_TRAFFIC, 43, 0, 2, host.now);  // unknown
  host.collector.collect(number, host.now, 0);
  const auto window = host.collector.take_window(host.now, 0, {}, false);
  REQUIRE(window.communicators.size() == 1);
  CHECK(window.communicators[0].device_traffic);
  CHECK(window.losses.malformed == 1);
  host.now += 1100 * kMs;
  const auto heartbeat = host.collector.take_window(host.now, 0, {}, false);
  REQUIRE(heartbeat.communicators.size() == 1);
  CHECK(heartbeat.communicators[0].device_traffic);
}

TEST_CASE("a collective that a graph records is told of, but neither counted nor waited for", "[collect]") {
  Host host;
  const uint64_t number = host.attach();
  host.process->comm(ORRERY_EVENT_COMM_INIT, 42, 0, 2, host.now - 100);
  const auto collective = [&](uint16_t flags, uint64_t time_ns) {
    orrery_event event = FakeProcess::make(ORRERY_EVENT_COLLECTIVE, time_ns);
    event.collective = {.comm_id = 42, .bytes = 8, .op = ORRERY_OP_ALL_TO_ALL_V, .peer = UINT32_MAX, .flags = flags};
    host.process->push(event);
  };
  collective(ORRERY_COLLECTIVE_CAPTURED, host.now - 50);
  collective(ORRERY_COLLECTIVE_REPLAY | ORRERY_COLLECTIVE_FROM_PROFILER, host.now - 40);
  host.collector.collect(number, host.now, 0);
  const auto window = host.collector.take_window(host.now, 0, {}, false);
  REQUIRE(window.intents.size() == 2);
  CHECK(window.intents[0].flags == ORRERY_COLLECTIVE_CAPTURED);
  CHECK(window.intents[0].sequence == 0);
  CHECK(window.intents[1].sequence == 0);
  CHECK(window.intents[1].op == ORRERY_OP_ALL_TO_ALL_V);
}
