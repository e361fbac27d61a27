// Agents that are absent, slow, dead, restarted, or of another version; processes that fork, close everything, or have
// many threads.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;
using fakes::FakeAgentOptions;

std::string without_library(const std::string& command) {
  return run_program({probe_path(), command}, {.preload = false}).out;
}

void check_unaffected(const std::string& command, const ProgramResult& result) {
  CHECK(result.status == 0);
  CHECK(result.out == without_library(command));
  CHECK(result.err.empty());
}

}  // namespace

TEST_CASE("without an agent an NCCL program is unaffected") {
  check_unaffected("nccl-tour", run_probe({"nccl-tour"}, scratch_socket_path()));
}

TEST_CASE("switched off, the library does not even look for the agent") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  check_unaffected("nccl-tour", run_program({probe_path(), "nccl-tour"},
                                            {.agent_socket = path, .environment = {{"ORRERY_DISABLE", "1"}}}));
  CHECK(agent.attachments() + agent.hang_ups() == 0);
}

TEST_CASE("an agent of another version, full or unwilling leaves the program unattached and unaffected") {
  for (const FakeAgentOptions& options :
       {FakeAgentOptions{.status = ORRERY_ATTACH_VERSION}, FakeAgentOptions{.status = ORRERY_ATTACH_FULL},
        FakeAgentOptions{.status = ORRERY_ATTACH_REFUSED}, FakeAgentOptions{.abi_version = ORRERY_ABI_VERSION + 1},
        FakeAgentOptions{.abi_version = ORRERY_ABI_OLDEST - 1}}) {
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, options);
    check_unaffected("nccl-tour", run_probe({"nccl-tour"}, path));
    CHECK(agent.events().empty());
  }
}

TEST_CASE("a refusal is explained in one line to those who ask") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.status = ORRERY_ATTACH_VERSION});
  const auto result =
      run_program({probe_path(), "nccl-tour"}, {.agent_socket = path, .environment = {{"ORRERY_LOG", "error"}}});
  CHECK(result.err ==
        "orrery: not attached, going on without the agent: it speaks another version; upgrade the older side\n");
}

TEST_CASE("an agent that never answers does not stop the program") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.answers = false});
  check_unaffected("nccl-tour", run_probe({"nccl-tour"}, path));
}

TEST_CASE("when the agent is restarted the program attaches again and tells it what it missed") {
  const std::string path = scratch_socket_path();
  auto agent = std::make_unique<FakeAgent>(path, FakeAgentOptions{});
  Program program({probe_path(), "keep-going"}, {.agent_socket = path});
  REQUIRE(agent->wait_for([&] { return agent->events_of(ORRERY_EVENT_COLLECTIVE).size() > 100; }));
  const auto before = agent->events_of(ORRERY_EVENT_COMM_INIT);
  REQUIRE(before.size() == 1);
  agent.reset();
  agent = std::make_unique<FakeAgent>(path, FakeAgentOptions{});
  REQUIRE(agent->wait_for([&] { return agent->events_of(ORRERY_EVENT_COLLECTIVE).size() > 100; }));
  const auto after = agent->events_of(ORRERY_EVENT_COMM_INIT);
  REQUIRE(after.size() == 1);
  CHECK(after[0].comm.comm_id == before[0].comm.comm_id);
  CHECK(agent->events_of(ORRERY_EVENT_COMM_READY).size() == 1);
  CHECK(agent->doorbells() == 1);
  const auto result = program.finish();
  CHECK(result.status == 0);
  CHECK(result.out == "started\nfailures 0\n");
  CHECK(result.err.empty());
}

TEST_CASE("an agent is replaced by a newer, larger and again an older one under a running program") {
  const std::string path = scratch_socket_path();
  const shm::SegmentShape small{.ring_count = 2, .ring_events = 64, .flow_slots = 8};
  const shm::SegmentShape large{.ring_count = 64, .ring_events = 16384, .flow_slots = 8192};
  auto agent = std::make_unique<FakeAgent>(path, FakeAgentOptions{.shape = small, .abi_version = 1});
  Program program({probe_path(), "keep-going"}, {.agent_socket = path});
  for (const FakeAgentOptions& next :
       {FakeAgentOptions{.shape = large}, FakeAgentOptions{.shape = small, .abi_version = 1}, FakeAgentOptions{}}) {
    REQUIRE(agent->wait_for([&] { return agent->count_of(ORRERY_EVENT_COLLECTIVE) > 100; }));
    CHECK(agent->count_of(ORRERY_EVENT_COMM_INIT) == 1);
    agent.reset();
    agent = std::make_unique<FakeAgent>(path, next);
  }
  REQUIRE(agent->wait_for([&] { return agent->count_of(ORRERY_EVENT_COLLECTIVE) > 100; }));
  const auto result = program.finish();
  CHECK(result.out == "started\nfailures 0\n");
  CHECK(result.err.empty());
}

TEST_CASE("an agent of the version before is spoken to in its own") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.abi_version = 1});
  check_unaffected("nccl-tour", run_attached_probe(agent, path, {"nccl-tour"}));
  CHECK(agent.count_of(ORRERY_EVENT_COLLECTIVE) > 0);
  for (const orrery_event& event : agent.events()) {
    CHECK(event.type <= ORRERY_EVENT_FLOW_GONE);
    if (event.type == ORRERY_EVENT_COLLECTIVE) {
      CHECK(event.collective.op <= ORRERY_OP_SCATTER);
      CHECK(event.collective.flags == 0);
    }
  }
}

TEST_CASE("an agent that stops stamping the segment is taken for dead and called again") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.stamps = false});
  Program program({probe_path(), "keep-going"}, {.agent_socket = path});
  CHECK(agent.wait_for([&] { return agent.attachments() >= 2; }));
  CHECK(program.finish().out == "started\nfailures 0\n");
}

TEST_CASE("attached, a collective makes no system call") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_attached_probe(agent, path, {"count-syscalls"});
  REQUIRE(result.status == 0);
  // A look at the connection, a few calls, is due every 250 ms, however long the 100,000 calls take on this machine.
  CHECK(values_of(result.out, "syscalls").at(0) < 1000);
  CHECK(agent.events_of(ORRERY_EVENT_COLLECTIVE).size() + agent.dropped() >= 100'000);
}

TEST_CASE("unattached, a collective makes no system call either") {
  const auto result = run_probe({"count-syscalls"}, scratch_socket_path());
  REQUIRE(result.status == 0);
  CHECK(values_of(result.out, "syscalls").at(0) < 1000);
}

TEST_CASE("a forked child is silent until it makes a communicator of its own, the parent goes on") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  AttachedProbe probe(agent, path, {"fork-child"});
  agent.wait_for([&] { return agent.attachments() == 2; });
  probe.program().say("\n");
  const auto result = probe.finish();
  REQUIRE(result.status == 0);
  REQUIRE(agent.wait_for([&] { return agent.hang_ups() == 2; }));  // the child's, and then the parent's
  int child = 0, status = -1, bare_status = -1;
  long bare = 0;
  REQUIRE(std::sscanf(result.out.c_str(), "child %d %d bare %ld %d", &child, &status, &bare, &bare_status) == 4);
  CHECK(status == 0);
  CHECK(bare_status == 0);
  CHECK(agent.attachments() == 2);
  std::vector<orrery_event> of_parent;
  uint64_t childs_comm = 0;
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE))
    if (event.thread != static_cast<uint32_t>(child))
      of_parent.push_back(event);
    else if (childs_comm = event.collective.comm_id; event.collective.bytes != 44)
      FAIL("the child told of its parent's communicator");
  REQUIRE(of_parent.size() == 2);
  CHECK(of_parent[0].thread == of_parent[1].thread);
  CHECK(of_parent[1].collective.bytes == 28);
  const auto made = agent.events_of(ORRERY_EVENT_COMM_INIT);
  REQUIRE(made.size() == 2);
  CHECK(made[0].comm.comm_id != made[1].comm.comm_id);
  CHECK(made[1].comm.comm_id == childs_comm);
}

TEST_CASE("a program that closes every descriptor stays attached and sees nothing of ours") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_attached_probe(agent, path, {"close-everything"});
  check_unaffected("close-everything", result);
  CHECK(agent.events_of(ORRERY_EVENT_COLLECTIVE).size() == 2);
}

TEST_CASE("a connection closed behind our back is given up, whatever got its number") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_attached_probe(agent, path, {"close-everything-raw"});
  CHECK(result.status == 0);
  CHECK(result.out == "disturbed 0 of 1\n");
  CHECK(agent.hang_ups() >= 1);
}

TEST_CASE("a number that was our connection's is the program's own once the program has got it") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_attached_probe(agent, path, {"take-over-numbers"});
  CHECK(result.status == 0);
  CHECK(result.out == "refused 0\n");
}

TEST_CASE("descriptor numbers are those the program would get without the library") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  check_unaffected("descriptors", run_attached_probe(agent, path, {"descriptors"}));
  CHECK(agent.events_of(ORRERY_EVENT_COLLECTIVE).size() == 2);
}

TEST_CASE("more threads than rings lose events, are counted, and rings return when threads end") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.shape = {.ring_count = 3, .ring_events = 1024, .flow_slots = 8}});
  const auto result = run_attached_probe(agent, path, {"many-threads", "8", "5"});
  CHECK(result.out == "threads done\n");
  std::map<uint64_t, uint64_t> by_bytes;
  std::set<uint32_t> threads;
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE)) {
    ++by_bytes[event.collective.bytes];
    threads.insert(event.thread);
  }
  // The main thread holds one ring, so two threads of each round's eight find one.
  CHECK(threads.size() == 10);
  CHECK(by_bytes[4] == 10);
  CHECK(by_bytes[8] == 1000);
  CHECK(agent.dropped() == 5 * 6 * 101);
}

TEST_CASE("communicators that threads of a forked child make at once, before anything else, are all told of") {
  for (int round = 0; round < 5; ++round) {
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    AttachedProbe probe(agent, path, {"first-together", "4"});
    CHECK(agent.wait_for([&] { return agent.count_of(ORRERY_EVENT_COMM_READY) == 1 + 4; }));
    CHECK(probe.finish().out == "child 0\n");
    std::set<uint64_t> made;
    for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COMM_INIT)) made.insert(event.comm.comm_id);
    CHECK(made.size() == 1 + 4);
  }
}

TEST_CASE("a collective called from a signal handler in the middle of another leaves every event whole") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_attached_probe(agent, path, {"signal-storm"});
  CHECK(result.out == "done\n");
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE))
    if (event.collective.bytes != 8 && event.collective.bytes != 12) FAIL("torn event");
}

}  // namespace orrery
