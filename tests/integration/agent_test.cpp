// orrery-agent as a program, between a controller and processes that the test plays.
#include <catch2/catch.hpp>
#include <random>

#include "agent_host.h"

using namespace orrery;
using test::AgentHost;
using test::AttachedProcess;

TEST_CASE("a communicator is announced at once and its plan reaches the process that announced it, no other",
          "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  AttachedProcess process(host.socket_path()), other(host.socket_path());
  REQUIRE(process.readable);
  REQUIRE(other.readable);
  process.announce(42, 0, 2);
  REQUIRE(host.controller.run_until([&] { return host.announced(42, true); }));
  REQUIRE(host.controller.send(AgentHost::plan(1, 42, 0x77)));
  REQUIRE(host.controller.run_until([&] { return !host.controller.acks.empty(); }));
  CHECK(host.controller.acks[0].accepted);
  CHECK(host.controller.acks[0].entries == 1);
  CHECK(process.planned("10.250.0.2") == 0x77);
  CHECK(other.planned("10.250.0.2") == 0);
  REQUIRE(host.controller.send(msg::Withdraw{{1, 1, 0}}));
  CHECK(host.wait_for([&] { return process.planned("10.250.0.2") == 0; }));
}

TEST_CASE("a plan whose lease is not renewed ends, on the process's side and on the agent's", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  AttachedProcess process(host.socket_path());
  process.announce(42, 0, 2);
  REQUIRE(host.controller.run_until([&] { return host.announced(42, true); }));
  REQUIRE(host.controller.send(AgentHost::plan(1, 42, 0x77, 400'000'000)));
  REQUIRE(host.controller.run_until([&] { return !host.controller.acks.empty(); }));
  CHECK(host.wait_for([&] { return process.planned("10.250.0.2") == 0; }));
  CHECK(host.wait_for([&] { return host.agent->log().find("lease ran out") != std::string::npos; }));
}

TEST_CASE("a refused plan is answered with the reason and the agent goes on", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  auto wrong = AgentHost::plan(1, 42, 0x77);
  wrong.flows[0].src = IpAddress::parse("192.0.2.1").value();
  REQUIRE(host.controller.send(wrong));
  REQUIRE(host.controller.run_until([&] { return host.controller.acks.size() == 1; }));
  CHECK_FALSE(host.controller.acks[0].accepted);
  CHECK(host.controller.acks[0].reason.find("does not start at this host") != std::string::npos);
  REQUIRE(host.controller.send(AgentHost::plan(1, 42, 0x77)));
  REQUIRE(host.controller.run_until([&] { return host.controller.acks.size() == 2; }));
  CHECK(host.controller.acks[1].accepted);
}

TEST_CASE("after kill -9 a new agent takes the socket over and the process attaches again", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  AttachedProcess before(host.socket_path());
  REQUIRE(before.readable);
  const uint64_t first_start = [&] {
    host.controller.run_until([&] { return !host.controller.windows.empty(); });
    return host.controller.windows.back().agent_start_tai_ns;
  }();
  host.agent->kill(SIGKILL);
  CHECK(host.agent->wait() == 128 + SIGKILL);
  CHECK(before.client.receive().closed);
  // What the process still writes goes nowhere and hurts nobody.
  before.process->comm(ORRERY_EVENT_COMM_INIT, 1, 0, 2, monotonic_now_ns());

  host.start();
  REQUIRE(host.ready());
  AttachedProcess again(host.socket_path());
  REQUIRE(again.readable);
  again.announce(43, 0, 2);
  REQUIRE(host.controller.run_until([&] { return host.announced(43, true); }));
  CHECK(host.controller.windows.back().agent_start_tai_ns != first_start);
}

TEST_CASE("SIGTERM ends the agent cleanly: plans are taken back and the socket is gone", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  AttachedProcess process(host.socket_path());
  process.announce(42, 0, 2);
  REQUIRE(host.controller.run_until([&] { return host.announced(42, true); }));
  REQUIRE(host.controller.send(AgentHost::plan(1, 42, 0x77)));
  REQUIRE(host.wait_for([&] { return process.planned("10.250.0.2") == 0x77; }));
  host.agent->kill(SIGTERM);
  CHECK(host.agent->wait() == 0);
  CHECK(process.planned("10.250.0.2") == 0);
  CHECK_FALSE(std::filesystem::exists(host.socket_path()));
}

TEST_CASE("a second agent on the same socket is refused and the first goes on", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  test::ChildProcess second({ORRERY_AGENT_BINARY, "--agent.socket_path=" + host.socket_path(),
                             "--metrics.listen_address=", "--controller.intents_endpoint=ipc:///tmp/x",
                             "--controller.agents_endpoint=ipc:///tmp/x"},
                            host.scratch.file("second.log"));
  CHECK(second.wait() == 1);
  CHECK(second.log().find("another agent listens") != std::string::npos);
  CHECK(AttachedProcess(host.socket_path()).readable);
}

TEST_CASE("processes over the limit run unmanaged, and there is room again when one goes", "[agent]") {
  AgentHost host;
  host.start({"--limits.processes_count=2"});
  REQUIRE(host.ready());
  auto first = std::make_unique<AttachedProcess>(host.socket_path());
  AttachedProcess second(host.socket_path()), third(host.socket_path());
  CHECK(second.readable);
  CHECK(third.received.reply.status == ORRERY_ATTACH_FULL);
  first.reset();
  CHECK(host.wait_for([&] { return AttachedProcess(host.socket_path()).readable; }));
}

TEST_CASE("a process that scribbles over its segment and rings without end disturbs nobody", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  AttachedProcess good(host.socket_path());
  REQUIRE(good.readable);
  auto hostile = std::make_unique<AttachedProcess>(host.socket_path());
  std::mt19937_64 random(7);
  auto* const words = static_cast<uint64_t*>(hostile->process->base());
  const size_t count = hostile->process->bytes() / sizeof(uint64_t);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 5000; ++i) words[random() % count] = random() % 2 == 0 ? random() % 100 : random();
    for (int i = 0; i < 50; ++i) hostile->client.ring();
    host.controller.run_until([] { return false; }, 2);
  }
  good.announce(42, 0, 2);
  CHECK(host.controller.run_until([&] { return host.announced(42, true); }));
  CHECK(host.agent->running());
  CHECK(host.controller.undecodable == 0);
  // The plan table is read-only for the process, whatever it tries.
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, hostile->received.plan.get(), 0) == MAP_FAILED);
  CHECK(write(hostile->received.plan.get(), "x", 1) == -1);
  CHECK(ftruncate(hostile->received.plan.get(), 0) == -1);
  CHECK(ftruncate(hostile->received.segment.get(), 0) == -1);
  hostile.reset();
  CHECK(host.wait_for([&] { return AttachedProcess(host.socket_path()).readable; }));
}

TEST_CASE("the agent says hello with its addresses and how many processes are attached", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  AttachedProcess process(host.socket_path());
  REQUIRE(host.controller.run_until([&] { return host.controller.hellos.back().processes == 1; }));
  const msg::AgentHello& hello = host.controller.hellos.back();
  CHECK(hello.host == "h1");
  CHECK(std::count(hello.addresses.begin(), hello.addresses.end(), IpAddress::parse(test::kHostAddress).value()) == 1);
  CHECK(std::count(hello.features.begin(), hello.features.end(), "preload") == 1);
}
