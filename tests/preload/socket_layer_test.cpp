// Source ports by plan, counters, and everything that must stay as it is.
#include <arpa/inet.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>

#include "common/abi/ecmp_hash_abi.h"
#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;

constexpr uint32_t kClient = 0x0a4d0001, kServer = 0x0a4d0002;  // 10.77.0.1, 10.77.0.2
constexpr uint32_t kNoEntry = 0xffffffffu;

orrery_plan_entry entry_to_server(uint64_t flow_id) {
  orrery_plan_entry entry{};
  entry.flow_id = flow_id;
  const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2};
  std::memcpy(entry.remote_address, peer, 16);
  entry.ordinal = ORRERY_PLAN_ANY_ORDINAL;
  entry.src_port_first = 32768;
  entry.src_port_last = 60999;
  entry.protocol = 6;
  entry.dscp = 0xff;
  return entry;
}

orrery_plan_entry hashed_entry(uint64_t flow_id, uint32_t seed, int hops, uint16_t group = 4) {
  std::mt19937 random(seed);
  orrery_plan_entry entry = entry_to_server(flow_id);
  entry.hop_count = static_cast<uint8_t>(hops);
  for (int i = 0; i < hops; ++i)
    entry.hops[i] = {.seed = static_cast<uint32_t>(random()),
                     .group_size = group,
                     .member = static_cast<uint16_t>(random() % group),
                     .hash_function = ORRERY_HASH_MURMUR_5TUPLE};
  return entry;
}

bool takes_path(const orrery_plan_entry& entry, long port) {
  for (int i = 0; i < entry.hop_count; ++i) {
    const uint32_t hash = orrery_ecmp_hash(entry.hops[i].seed, kClient, kServer, static_cast<uint16_t>(port), 5000, 6);
    if (orrery_ecmp_member(hash, entry.hops[i].group_size) != entry.hops[i].member) return false;
  }
  return port >= entry.src_port_first && port <= entry.src_port_last &&
         (port & entry.src_port_mask) == entry.src_port_value;
}

struct Outcome {
  ProgramResult result;
  std::vector<long> ports;
  std::vector<orrery_event> born;  // the connecting sides
};

Outcome connect_with(const std::vector<orrery_plan_entry>& plan, int count, const std::string& how,
                     fakes::FakeAgentOptions options = {}) {
  const std::string path = scratch_socket_path();
  options.plan = plan;
  FakeAgent agent(path, options);
  AttachedProbe probe(agent, path, {"connect", std::to_string(count), how});
  Outcome outcome;
  outcome.result = probe.finish();
  outcome.ports = values_of(outcome.result.out, "port");
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_FLOW_BORN))
    if (event.flow.role == ORRERY_ROLE_CONNECT) outcome.born.push_back(event);
  return outcome;
}

#define SKIP_WITHOUT_NAMESPACES(result)                    \
  if ((result).status == 77) {                             \
    WARN("network namespaces are not available: skipped"); \
    return;                                                \
  }

}  // namespace

TEST_CASE("the source port wins every hop of the planned path") {
  const auto how = GENERATE("plain", "old-kernel", "address", "v6", "nonblocking");
  const uint32_t seed = GENERATE(1u, 2u, 3u);
  const orrery_plan_entry entry = hashed_entry(99, seed, 1 + static_cast<int>(seed));
  const Outcome outcome = connect_with({entry}, 20, how);
  SKIP_WITHOUT_NAMESPACES(outcome.result);
  INFO(how << " " << outcome.result.out << outcome.result.err);
  REQUIRE(outcome.result.status == 0);
  REQUIRE(outcome.ports.size() == 20);
  size_t planned = 0;
  for (const orrery_event& born : outcome.born) {
    if (born.flow.plan_index == kNoEntry) continue;
    ++planned;
    CHECK(born.flow.plan_index == 0);
    CHECK(takes_path(entry, born.flow.local_port));
  }
  CHECK(outcome.born.size() == 20);
  CHECK(planned == 20);
  CHECK(std::set<long>(outcome.ports.begin(), outcome.ports.end()).size() == 20);
}

TEST_CASE("ports are chosen by mask and range, and by ordinal") {
  orrery_plan_entry all = entry_to_server(1), exact = entry_to_server(2);
  all.src_port_mask = 0xf;
  all.src_port_value = 5;
  exact.ordinal = 15;
  exact.src_port_first = exact.src_port_last = 50123;
  const Outcome outcome = connect_with({all, exact}, 20, "plain");
  SKIP_WITHOUT_NAMESPACES(outcome.result);
  REQUIRE(outcome.born.size() == 20);
  CHECK(outcome.ports[15] == 50123);
  for (const orrery_event& born : outcome.born)
    if (born.flow.plan_index == 0) CHECK((born.flow.local_port & 0xf) == 5);
}

TEST_CASE("a path that no port takes leaves the port to the kernel") {
  orrery_plan_entry entry = hashed_entry(1, 5, 4, 60);
  entry.src_port_first = entry.src_port_last = 40001;
  while (takes_path(entry, 40001)) ++entry.hops[0].seed;
  const Outcome outcome = connect_with({entry}, 5, "plain");
  SKIP_WITHOUT_NAMESPACES(outcome.result);
  REQUIRE(outcome.born.size() == 5);
  for (const orrery_event& born : outcome.born) CHECK(born.flow.plan_index == kNoEntry);
}

TEST_CASE("when every planned port is taken the connection is made all the same") {
  const auto how = GENERATE("plain", "old-kernel");
  orrery_plan_entry entry = entry_to_server(1);
  entry.src_port_first = 40000;
  entry.src_port_last = 40003;
  const Outcome outcome = connect_with({entry}, 20, how);
  SKIP_WITHOUT_NAMESPACES(outcome.result);
  REQUIRE(outcome.ports.size() == 20);
  size_t planned = 0;
  for (const orrery_event& born : outcome.born) planned += born.flow.plan_index == 0;
  CHECK(planned == 4);
}

TEST_CASE("a port the program bound itself is its own") {
  const Outcome outcome = connect_with({hashed_entry(1, 1, 2)}, 5, "bound");
  SKIP_WITHOUT_NAMESPACES(outcome.result);
  CHECK(outcome.ports == std::vector<long>{45000, 45001, 45002, 45003, 45004});
}

TEST_CASE("UDP and loopback connections are not followed") {
  for (const char* how : {"udp", "loopback"}) {
    const Outcome outcome = connect_with({hashed_entry(1, 1, 2)}, 5, how);
    SKIP_WITHOUT_NAMESPACES(outcome.result);
    CHECK(outcome.ports.size() == 5);
    CHECK(outcome.born.empty());
  }
}

TEST_CASE("a planned port that the last connection still holds is not an error of the next") {
  orrery_plan_entry entry = entry_to_server(1);
  entry.src_port_first = entry.src_port_last = 41'000;
  const Outcome outcome = connect_with({entry}, 3, "old-kernel-again");
  SKIP_WITHOUT_NAMESPACES(outcome.result);
  INFO(outcome.result.out);
  CHECK(outcome.result.status == 0);
  const std::vector<long> ports = values_of(outcome.result.out, "port");
  REQUIRE(ports.size() == 3);
  CHECK(ports[0] == 41'000);
  CHECK(ports[1] != 41'000);
}

TEST_CASE("the plan's DSCP and pace are set") {
  orrery_plan_entry entry = entry_to_server(1);
  entry.dscp = 26;
  entry.pace_bps = 80'000'000;
  const Outcome outcome = connect_with({entry}, 10, "dscp");
  SKIP_WITHOUT_NAMESPACES(outcome.result);
  CHECK(values_of(outcome.result.out, "tos").back() == 26 << 2);
  CHECK(values_of(outcome.result.out, "pace").back() == 10'000'000);
}

TEST_CASE("a plan's pace ends with its lease") {
  orrery_plan_entry entry = entry_to_server(1);
  entry.pace_bps = 80'000'000;
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.plan = {entry}});
  AttachedProbe probe(agent, path, {"pace"});
  probe.program().wait_for_output("pace ");
  agent.publish({entry}, 1);
  probe.program().say("\n");
  const auto result = probe.finish();
  SKIP_WITHOUT_NAMESPACES(result);
  CHECK(values_of(result.out, "pace") == std::vector<long>{10'000'000, -1});
}

TEST_CASE("no plan, an expired plan and a garbage plan leave every port to the kernel") {
  const orrery_plan_entry entry = hashed_entry(1, 1, 2);
  for (const fakes::FakeAgentOptions& options :
       {fakes::FakeAgentOptions{.lease_ns = 0}, fakes::FakeAgentOptions{.lease_ns = 1},
        fakes::FakeAgentOptions{.garbage_plan = true}}) {
    const Outcome outcome = connect_with({entry}, 10, "plain", options);
    SKIP_WITHOUT_NAMESPACES(outcome.result);
    CHECK(outcome.result.status == 0);
    CHECK(outcome.born.size() == 10);
    if (!options.garbage_plan)
      for (const orrery_event& born : outcome.born) CHECK(born.flow.plan_index == kNoEntry);
  }
}

TEST_CASE("a program without NCCL attaches at its connections, and a plan counts until its lease ends") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.lease_ns = 0});
  Program program({probe_path(), "connect-when-told"}, {.agent_socket = path});
  orrery_plan_entry entry = entry_to_server(1);
  entry.src_port_first = entry.src_port_last = 50555;
  const auto next_port = [&](const std::string& prompt) {
    program.say("\n");
    program.wait_for_output(prompt);
  };
  next_port("0 port");
  const bool attached = agent.wait_for([&] { return agent.attachments() == 1; });
  if (attached) {
    next_port("1 port");  // picks up the agent's answer
    agent.publish({entry}, 60'000'000'000);
    next_port("2 port 50555");
    agent.publish({entry}, 0);
    next_port("3 port");
  }
  const auto result = program.finish();
  SKIP_WITHOUT_NAMESPACES(result);
  REQUIRE(attached);
  CHECK(result.out.find("2 port 50555\n") != std::string::npos);
  CHECK(result.out.find("3 port 50555\n") == std::string::npos);
  agent.wait_for([&] { return agent.hang_ups() >= 1; });  // it has read everything then
  CHECK(agent.events_of(ORRERY_EVENT_FLOW_BORN).size() == 8);
}

TEST_CASE("bytes are counted on both ends through every call, over a duplicated descriptor") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.plan = {hashed_entry(4711, 1, 2)}});
  AttachedProbe probe(agent, path, {"transfer"});
  probe.program().wait_for_output("moved 2097152");
  agent.wait_for([&] { return agent.events_of(ORRERY_EVENT_FLOW_BORN).size() == 2 || agent.hang_ups() > 0; });
  const auto born = agent.events_of(ORRERY_EVENT_FLOW_BORN);
  std::vector<std::optional<shm::FlowSample>> samples;
  for (const orrery_event& event : born) samples.push_back(agent.flow(event.flow.slot));
  const auto result = probe.finish();
  SKIP_WITHOUT_NAMESPACES(result);
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  REQUIRE(born.size() == 2);
  for (const auto& sample : samples) {
    REQUIRE(sample.has_value());
    CHECK(sample->tx_bytes == 1 << 20);
    CHECK(sample->rx_bytes == 1 << 20);
    CHECK(sample->bursts >= 1);
    CHECK(sample->last_tx_ns >= sample->first_tx_ns);
  }
  CHECK(samples[0]->plan_flow_id == 4711);
  const auto gone = agent.events_of(ORRERY_EVENT_FLOW_GONE);
  REQUIRE(gone.size() == 2);
  CHECK(gone[0].flow.slot == born[0].flow.slot);
  CHECK(gone[0].flow.generation == born[0].flow.generation);
}

TEST_CASE("an address that cannot be read, or is none, is the kernel's to refuse") {
  const auto loaded = run_probe({"connect-badly"}, scratch_socket_path());
  CHECK(loaded.status == 0);
  CHECK(loaded.out == run_program({probe_path(), "connect-badly"}, {.preload = false}).out);
}

TEST_CASE("connections that closefrom closes have gone") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  AttachedProbe probe(agent, path, {"close-from"});
  const auto result = probe.finish();
  SKIP_WITHOUT_NAMESPACES(result);
  CHECK(result.out == "closed 1\n");
  CHECK(agent.count_of(ORRERY_EVENT_FLOW_BORN) == 2);
  CHECK(agent.count_of(ORRERY_EVENT_FLOW_GONE) == 2);
}

TEST_CASE("descriptors closed in a vfork child are still followed in the parent") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  AttachedProbe probe(agent, path, {"vfork"});
  probe.program().wait_for_output("moved 1000");
  agent.wait_for([&] { return !agent.events_of(ORRERY_EVENT_FLOW_BORN).empty() || agent.hang_ups() > 0; });
  const auto born = agent.events_of(ORRERY_EVENT_FLOW_BORN);
  std::optional<shm::FlowSample> sample;
  if (!born.empty()) sample = agent.flow(born[0].flow.slot);
  const auto result = probe.finish();
  SKIP_WITHOUT_NAMESPACES(result);
  REQUIRE(sample.has_value());
  CHECK(sample->tx_bytes == 1000);
}

TEST_CASE("a followed send makes one system call, the program's own") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.plan = {hashed_entry(1, 1, 2)}});
  const auto result = run_attached_probe(agent, path, {"send-syscalls"});
  SKIP_WITHOUT_NAMESPACES(result);
  REQUIRE(result.status == 0);
  // A look at the connection is due every 250 ms, however long the 10,000 sends take here.
  CHECK(values_of(result.out, "syscalls").at(0) < 1000);
}

}  // namespace orrery
