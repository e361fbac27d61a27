// On real soft-RoCE, in the guest: what is held leaves the machine at the planned time, and a live queue pair changes
// its source port in mid-run. The program under test is tests/vm/timing/roce_traffic.cpp; it checks every byte.
#include <netinet/in.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iostream>

#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"
#include "tests/vm/timing/packet_capture.h"

namespace orrery {
namespace {

using fakes::FakeAgent;
using fakes::FakeAgentOptions;

constexpr uint64_t kMillisecond = 1'000'000;
// The clocks of the capture and of the program are two, read one after the other; and a capture stamps what left a
// little before it is seen.
constexpr uint64_t kClockToleranceNs = 200'000;

orrery_plan_entry entry_to_peer() {
  orrery_plan_entry entry{};
  const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2};
  std::memcpy(entry.remote_address, peer, 16);
  entry.flow_id = 7;
  entry.ordinal = ORRERY_PLAN_ANY_ORDINAL;
  entry.protocol = IPPROTO_UDP;
  entry.dscp = 0xff;
  return entry;
}

orrery_plan_entry released_after(uint64_t offset_ns) {
  orrery_plan_entry entry = entry_to_peer();
  entry.release_offset_ns = offset_ns;
  return entry;
}

orrery_plan_entry from_ports(uint16_t first, uint16_t last) {
  orrery_plan_entry entry = entry_to_peer();
  entry.src_port_first = first;
  entry.src_port_last = last;
  return entry;
}

std::vector<std::string> traffic(int rounds, int messages, int bytes, const char* how = nullptr) {
  std::vector<std::string> command{
      ORRERY_ROCE_TRAFFIC, "rxe0", "rxe1", std::to_string(rounds), std::to_string(messages), std::to_string(bytes)};
  if (how != nullptr) command.emplace_back(how);
  return command;
}

struct Counted {
  shm::FlowSample flow;
  orrery_qp_counters qp{};
};

// Of the queue pair that sends: the one on the first device.
Counted counters_of_sender(const FakeAgent& agent) {
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_QP_READY)) {
    if (std::strcmp(event.qp.device, "rxe0") != 0) continue;
    const auto flow = agent.flow(event.qp.slot);
    const auto qp = agent.qp(event.qp.slot, event.qp.generation);
    REQUIRE(flow);
    REQUIRE(qp);
    return {*flow, *qp};
  }
  FAIL("the sender was not announced");
  return {};
}

struct Run {
  ProgramResult result;
  std::vector<long> starts;
  std::vector<RocePacket> writes;
  Counted counted;
};

void keep_writes(Run& run, const std::vector<RocePacket>& packets) {
  for (const RocePacket& packet : packets)
    if (packet.is_write()) run.writes.push_back(packet);
  run.starts = values_of(run.result.out, "start");
}

Run run_traffic(const std::vector<std::string>& command, uint64_t sends, const FakeAgent& agent,
                const std::string& agent_socket) {
  PacketCapture capture("v0");
  Run run;
  Program program(command, {.agent_socket = agent_socket});
  const bool verified = program.wait_for_output("verified");
  // What another thread has posted for the program it counts after that.
  if (verified)
    agent.wait_for([&] {
      run.counted = counters_of_sender(agent);
      return run.counted.qp.posted_sends >= sends;
    });
  run.result = program.finish();
  keep_writes(run, capture.stop());
  INFO(run.result.out << run.result.err);
  REQUIRE(verified);
  REQUIRE(run.result.status == 0);
  return run;
}

// How long after each collective's start its first packet left.
std::vector<uint64_t> first_packets(const Run& run) {
  std::vector<uint64_t> delays;
  for (const long start : run.starts) {
    const auto first = std::find_if(run.writes.begin(), run.writes.end(), [&](const RocePacket& packet) {
      return packet.time_ns + kClockToleranceNs >= static_cast<uint64_t>(start);
    });
    REQUIRE(first != run.writes.end());
    delays.push_back(first->time_ns - std::min(first->time_ns, static_cast<uint64_t>(start)));
  }
  return delays;
}

void print(const char* what, std::vector<uint64_t> delays) {
  std::sort(delays.begin(), delays.end());
  std::cout << what << ": first packet after the collective's start, us: least " << delays.front() / 1000 << ", median "
            << delays[delays.size() / 2] / 1000 << ", most " << delays.back() / 1000 << " (" << delays.size()
            << " rounds)\n";
}

// The source ports of the writes, each change once; prints them.
std::vector<uint16_t> ports_in_order(const Run& run) {
  std::vector<uint16_t> ports;
  for (const RocePacket& packet : run.writes)
    if (ports.empty() || ports.back() != packet.udp_sport) ports.push_back(packet.udp_sport);
  std::cout << "source ports of the writes in their order:";
  for (const uint16_t port : ports) std::cout << ' ' << port;
  std::cout << '\n';
  return ports;
}

// Port 18515, which the kernel writes in hexadecimal.
bool someone_listens_on_perftest_port() {
  std::ifstream sockets("/proc/net/tcp");
  for (std::string line; std::getline(sockets, line);)
    if (line.find(":4853 00000000:0000 0A") != std::string::npos) return true;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return false;
}

}  // namespace

TEST_CASE("the first packet of a burst leaves at its release time, and none before it, polled for or not") {
  constexpr int kRounds = 24;
  constexpr uint64_t kOffset = 30 * kMillisecond;
  const std::string path = scratch_socket_path();
  FakeAgentOptions options;
  options.hold_cap_ns = 200 * kMillisecond;
  options.plan = {released_after(0)};
  {
    FakeAgent agent(path, options);
    print("without an offset", first_packets(run_traffic(traffic(kRounds, 4, 8192), 4 * kRounds, agent, path)));
  }
  options.plan = {released_after(kOffset)};
  for (const char* how : {"polling", "asleep"}) {
    INFO(how);
    FakeAgent agent(path, options);
    const Run run = run_traffic(traffic(kRounds, 4, 8192, how), 4 * kRounds, agent, path);
    CHECK(values_of(run.result.out, "verified").at(0) == kRounds * 4 * 8192);
    const std::vector<uint64_t> held = first_packets(run);
    print((std::string("with an offset of 30 ms, ") + how).c_str(), held);
    for (const uint64_t delay : held) CHECK(delay + kClockToleranceNs >= kOffset);
    const Counted& counted = run.counted;
    CHECK(counted.qp.deferred == 4 * kRounds);
    CHECK(counted.qp.drained_early == 0);
    CHECK(counted.qp.posted_sends == 4 * kRounds);
    CHECK(counted.flow.tx_bytes == kRounds * 4 * 8192);
    CHECK(counted.flow.held_ns >= kRounds * kOffset / 2);
  }
}

TEST_CASE("no burst is held beyond the cap") {
  const std::string path = scratch_socket_path();
  FakeAgentOptions options;
  options.hold_cap_ns = 5 * kMillisecond;
  options.plan = {released_after(3'600'000 * kMillisecond)};
  for (const char* how : {"polling", "asleep"}) {
    INFO(how);
    FakeAgent agent(path, options);
    const Run run = run_traffic(traffic(10, 4, 8192, how), 4 * 10, agent, path);
    print((std::string("with a cap of 5 ms, ") + how).c_str(), first_packets(run));
    CHECK(run.counted.qp.deferred > 0);
    CHECK(run.counted.qp.posted_sends == 4 * 10);
  }
}

TEST_CASE("a paced burst leaves no faster than its pace") {
  const std::string path = scratch_socket_path();
  FakeAgentOptions options;
  options.hold_cap_ns = 2'000 * kMillisecond;
  orrery_plan_entry entry = entry_to_peer();
  entry.pace_bps = 4'000'000;  // 8 KiB in 16.4 ms
  options.plan = {entry};
  FakeAgent agent(path, options);
  const Run run = run_traffic(traffic(5, 6, 8192), 5 * 6, agent, path);
  const uint64_t line_ns = 5ull * 8192 * 8 * 1000 / 4;
  for (size_t round = 0; round < run.starts.size(); ++round) {
    uint64_t first = UINT64_MAX, last = 0;
    const auto start = static_cast<uint64_t>(run.starts[round]);
    const auto end = round + 1 < run.starts.size() ? static_cast<uint64_t>(run.starts[round + 1]) : UINT64_MAX;
    for (const RocePacket& packet : run.writes)
      if (packet.time_ns >= start && packet.time_ns < end) {
        first = std::min(first, packet.time_ns);
        last = std::max(last, packet.time_ns);
      }
    CHECK(last - first >= line_ns / 2);  // the first packet may have been late
  }
}

TEST_CASE("a running queue pair moves to another source port when the plan changes, unseen by its program") {
  const std::string path = scratch_socket_path();
  FakeAgentOptions options;
  options.plan = {from_ports(50000, 50063)};
  FakeAgent agent(path, options);
  PacketCapture capture("v0");
  Run run;
  {
    Program program(traffic(80, 4, 16384, "step"), {.agent_socket = path});
    REQUIRE(program.wait_for_output("ready 0\n"));
    program.say("\n");
    REQUIRE(program.wait_for_output("ready 20\n"));
    agent.publish({from_ports(51000, 51063)}, 60'000 * kMillisecond);
    program.say("\n");
    REQUIRE(program.wait_for_output("ready 40\n"));
    agent.publish({from_ports(52000, 52063)}, 60'000 * kMillisecond);
    program.say("\n\n");
    run.result = program.finish();
  }
  keep_writes(run, capture.stop());
  INFO(run.result.out << run.result.err);
  REQUIRE(run.result.status == 0);
  CHECK(values_of(run.result.out, "verified").at(0) == 80 * 4 * 16384);
  const std::vector<uint16_t> ports = ports_in_order(run);
  REQUIRE(ports.size() == 3);
  CHECK((ports[0] >= 50000 && ports[0] <= 50063));
  CHECK((ports[1] >= 51000 && ports[1] <= 51063));
  CHECK((ports[2] >= 52000 && ports[2] <= 52063));
  std::vector<uint16_t> told;
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_QP_MOVED))
    if (std::strcmp(event.qp.device, "rxe0") == 0) told.push_back(event.qp.udp_sport);
  CHECK(told == std::vector<uint16_t>{ports[1], ports[2]});
}

TEST_CASE("ib_write_bw moves in mid-run and does not notice") {
  const std::string path = scratch_socket_path();
  FakeAgentOptions options;
  options.plan = {from_ports(50000, 50063)};
  FakeAgent agent(path, options);
  PacketCapture capture("v0");
  const std::vector<std::string> command{"ib_write_bw", "-F",   "-x", "1", "-s", "16384",
                                         "-n",          "1500", "-t", "1", "-Q", "1"};
  const auto on = [&](const char* device, const char* server) {
    std::vector<std::string> whole = command;
    whole.insert(whole.end(), {"-d", device});
    if (server != nullptr) whole.push_back(server);
    return whole;
  };
  Program server(on("rxe1", nullptr), {.preload = false});
  REQUIRE(agent.wait_for(someone_listens_on_perftest_port));
  Program client(on("rxe0", "10.9.0.2"), {.agent_socket = path});
  const bool running = agent.wait_for([&] {
    const auto ready = agent.events_of(ORRERY_EVENT_QP_READY);
    const auto counters = ready.empty() ? std::nullopt : agent.qp(ready[0].qp.slot, ready[0].qp.generation);
    return counters && counters->posted_sends >= 300;
  });
  agent.publish({from_ports(51000, 51063)}, 60'000 * kMillisecond);
  Run run;
  run.result = client.finish();
  const ProgramResult served = server.finish();
  keep_writes(run, capture.stop());
  INFO(run.result.out << run.result.err << served.out << served.err);
  REQUIRE(running);
  CHECK(run.result.status == 0);
  CHECK(served.status == 0);
  const std::vector<uint16_t> ports = ports_in_order(run);
  REQUIRE(ports.size() == 2);
  CHECK((ports[0] >= 50000 && ports[0] <= 50063));
  CHECK((ports[1] >= 51000 && ports[1] <= 51063));
}

}  // namespace orrery
