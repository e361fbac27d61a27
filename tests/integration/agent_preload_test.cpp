// The real library in a real process, the real agent, and a controller that the test plays.
#include <catch2/catch.hpp>
#include <map>

#include "agent_host.h"
#include "tests/preload/run_program.h"

using namespace orrery;
using test::AgentHost;

namespace {

ProgramOptions under(const AgentHost& host) {
  ProgramOptions options;
  options.agent_socket = host.socket_path();
  options.environment = {{"LD_LIBRARY_PATH", std::filesystem::path(ORRERY_FAKE_NCCL).parent_path().string()}};
  return options;
}

std::vector<msg::Intent> intents(const AgentHost& host) {
  std::vector<msg::Intent> all;
  for (const msg::IntentWindow& window : host.controller.windows)
    all.insert(all.end(), window.intents.begin(), window.intents.end());
  return all;
}

}  // namespace

TEST_CASE("each call of a program becomes an intent", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  ProgramOptions options = under(host);
  options.environment.emplace_back("PROBE_WAITS_FOR_AGENT", "1");  // which may answer later than the library waits
  Program program({probe_path(), "nccl-tour"}, options);
  REQUIRE(program.wait_for_output("ready"));
  REQUIRE(host.wait_for([&] { return host.controller.hellos.back().processes == 1; }));
  program.say("\n");
  const ProgramResult result = program.finish();
  CHECK(result.status == 0);
  const auto counted = [&] {
    std::map<uint16_t, int> calls;
    for (const msg::Intent& intent : intents(host)) ++calls[intent.op];
    return calls;
  };
  // nccl-tour: two all-reduces on good communicators, one of each other, and a group of a send and a receive.
  const std::map<uint16_t, int> expected = {
      {ORRERY_OP_ALL_REDUCE, 2}, {ORRERY_OP_ALL_GATHER, 1}, {ORRERY_OP_REDUCE_SCATTER, 1},
      {ORRERY_OP_BROADCAST, 1},  {ORRERY_OP_REDUCE, 1},     {ORRERY_OP_SEND, 1},
      {ORRERY_OP_RECV, 1}};
  host.wait_for([&] { return counted() == expected; });
  CHECK(counted() == expected);
  CHECK(host.controller.windows.back().losses == msg::Losses{});
}

TEST_CASE("the communicator of a running program is announced ahead of the window", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  // It goes on for a while: what a program leaves behind when it ends is no longer urgent.
  Program program({probe_path(), "keep-going"}, under(host));
  const auto announced_ahead = [&] {
    for (const msg::IntentWindow& window : host.controller.windows)
      if (window.urgent && !window.communicators.empty()) return true;
    return false;
  };
  CHECK(host.wait_for(announced_ahead));
  CHECK(program.finish().status == 0);
}

TEST_CASE("killing the agent does not disturb the program, which attaches to the next one and announces itself again",
          "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  Program program({probe_path(), "keep-going"}, under(host));
  REQUIRE(program.wait_for_output("started"));
  REQUIRE(host.wait_for([&] { return !intents(host).empty(); }));
  const uint64_t comm_id = intents(host).front().comm_id;
  host.agent->kill(SIGKILL);
  host.agent->wait();
  host.controller.run_until([] { return false; }, 300);
  host.controller.windows.clear();
  host.start();
  REQUIRE(host.ready());
  CHECK(host.wait_for([&] { return host.announced(comm_id, false) && !intents(host).empty(); }));
  const ProgramResult result = program.finish();
  CHECK(result.status == 0);
  CHECK(result.out.find("failures 0") != std::string::npos);
}

TEST_CASE("stopping the agent in the middle of a call storm leaves the program's results alone", "[agent]") {
  AgentHost host;
  REQUIRE(host.ready());
  Program program({probe_path(), "storm"}, under(host));
  REQUIRE(program.wait_for_output("started"));
  REQUIRE(host.wait_for([&] {
    program.say("\n");
    return !intents(host).empty();
  }));
  host.agent->kill(SIGSTOP);  // alive to the kernel, dead to everybody else: rings fill up
  program.say("\n");          // however much of the storm was over by then
  const ProgramResult result = program.finish();
  CHECK(result.status == 0);
  CHECK(result.out.find("failures 0") != std::string::npos);
  host.agent->kill(SIGCONT);
  CHECK(host.wait_for([&] { return host.controller.windows.back().losses.ring_dropped > 0; }));
}
