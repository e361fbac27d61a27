// Sends that are held for the plan, and queue pairs that move while they run, through the whole library: what releases
// them, who is never held, and what the program sees of it.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>

#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;
using fakes::FakeAgentOptions;

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint32_t kFar = 4'000'000'000;  // as long as a cap can be
// A cap that must end by itself, but not before a scene has looked at what it holds.
constexpr uint32_t kWhileHolding = 2'000'000'000;

orrery_plan_entry entry_to_peer() {
  orrery_plan_entry entry{};
  const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2};
  std::memcpy(entry.remote_address, peer, 16);
  entry.flow_id = 7;
  entry.ordinal = ORRERY_PLAN_ANY_ORDINAL;
  entry.protocol = 17;
  entry.dscp = 0xff;
  return entry;
}

FakeAgentOptions released_after(uint64_t offset_ns, uint32_t cap_ns = kFar, uint64_t pace_bps = 0) {
  orrery_plan_entry entry = entry_to_peer();
  entry.release_offset_ns = offset_ns;
  entry.pace_bps = pace_bps;
  FakeAgentOptions options;
  options.plan = {entry};
  options.hold_cap_ns = cap_ns;
  return options;
}

std::vector<orrery_plan_entry> from_port(uint16_t port) {
  orrery_plan_entry entry = entry_to_peer();
  entry.src_port_first = entry.src_port_last = port;
  return {entry};
}

using Environment = std::vector<std::pair<std::string, std::string>>;

std::string run_timing(std::vector<std::string> arguments, const FakeAgentOptions& options,
                       Environment environment = {}) {
  const std::string socket = scratch_socket_path();
  FakeAgent agent(socket, options);
  arguments.insert(arguments.begin(), probe_path());
  const ProgramResult result = AttachedProbe(agent, socket, arguments, std::move(environment)).finish();
  INFO(result.err);
  CHECK(result.status == 0);
  return result.out;
}

const std::string kHeld = "posted 0 0 polled 0 arrived 00\n";

}  // namespace

TEST_CASE("what is held goes at once when its queue pair leaves the state it sends in, or takes what cannot wait") {
  for (const char* what : {"bind", "err", "extended", "reset", "sqd", "what cannot be copied"}) {
    INFO(what);
    const bool sends = std::strcmp(what, "what cannot be copied") == 0 || std::strcmp(what, "bind") == 0;
    const int completions = sends ? 3 : 2;
    CHECK(run_timing({"hold", what}, released_after(60'000 * kMillisecond)) ==
          kHeld + what + ": arrived 11 completions " + std::to_string(completions) + "\n");
  }
  CHECK(run_timing({"hold", "destroy"}, released_after(60'000 * kMillisecond)) ==
        kHeld + "destroy: arrived 11 completions -1\n");
}

TEST_CASE("a thread that is cancelled in the middle of a post does not block the queue pair") {
  CHECK(run_timing({"hold", "cancel"}, released_after(60'000 * kMillisecond)) ==
        kHeld + "cancel: arrived 11 completions 4\n");
}

TEST_CASE("requests that complete and are freed before their post returns are not looked at any more") {
  CHECK(run_timing({"hold", "freed"}, released_after(60'000 * kMillisecond)) ==
        kHeld + "freed: arrived 11 completions 6\n");
}

TEST_CASE("what is held goes at the next poll after the plan's lease has ended") {
  const std::string socket = scratch_socket_path();
  FakeAgent agent(socket, released_after(60'000 * kMillisecond));
  AttachedProbe probe(agent, socket, {"hold", "lease"});
  REQUIRE(probe.program().wait_for_output("held\n"));
  agent.publish({}, 1);
  probe.program().say("\n");
  CHECK(probe.finish().out == kHeld + "held\nlease: arrived 11 completions 0\n");
}

TEST_CASE("what is held goes with the next post after the agent has gone") {
  const std::string socket = scratch_socket_path();
  auto agent = std::make_unique<FakeAgent>(socket, released_after(60'000 * kMillisecond));
  Program program({probe_path(), "hold", "agent"},
                  {.agent_socket = socket, .environment = {{"PROBE_WAITS_FOR_AGENT", "1"}}});
  REQUIRE(program.wait_for_output("ready\n"));
  REQUIRE(agent->wait_for([&] { return agent->attachments() == 1; }));
  program.say("\n");
  REQUIRE(program.wait_for_output("held\n"));
  agent.reset();
  program.say("\n");
  const ProgramResult result = program.finish();
  CHECK(result.out == "ready\n" + kHeld + "held\nagent: arrived 11 completions 4\n");
}

TEST_CASE("what carries no data away, and queue pairs that nobody else may post to, are never held") {
  const FakeAgentOptions options = released_after(60'000 * kMillisecond);
  CHECK(run_timing({"never", "no data"}, options) == "no data: completions 1\n");
  CHECK(run_timing({"never", "clear to send"}, options) == "clear to send: arrived 1\nclear to send: arrived 1\n");
  CHECK(run_timing({"never", "thread domain"}, options) == "thread domain: arrived 1\n");
  CHECK(run_timing({"never", "extended"}, options) == "extended: arrived 1\n");
  CHECK(run_timing({"never", "without locks"}, options) == "without locks: arrived 1\n");
  CHECK(run_timing({"never", ""}, options) == ": arrived 0\n");  // the same, but nothing speaks against it
}

TEST_CASE("what is held, and in how much memory, can be chosen") {
  const FakeAgentOptions options = released_after(60'000 * kMillisecond);
  CHECK(run_timing({"never", ""}, options, {{"ORRERY_DEFER_KIB", "0"}}) == ": arrived 1\n");
  CHECK(run_timing({"never", ""}, options, {{"ORRERY_DEFER_KIB", "8"}}) == ": arrived 0\n");
  CHECK(run_timing({"never", ""}, options, {{"MLX5_SINGLE_THREADED", "1"}}) == ": arrived 1\n");
  CHECK(run_timing({"never", "clear to send"}, options, {{"ORRERY_DEFER_CTS", "1"}}) ==
        "clear to send: arrived 0\nclear to send: arrived 0\n");
}

TEST_CASE("a held send is posted by a poll, and not before its time") {
  const std::string out = run_timing({"release", "20000"}, released_after(20 * kMillisecond));
  CHECK(out == "early 0\nearly 0\nearly 0\nearly 0\nearly 0\n");
}

TEST_CASE("a held send that the device refuses completes as flushed, in its place, and its queue pair is in error") {
  CHECK(run_timing({"refused"}, released_after(60'000 * kMillisecond, 20 * kMillisecond)) ==
        "post 0\npost 0\npost 0\nwr 1 status 0\nwr 2 status 5\nwr 3 status 5\nstate 6\n");
}

TEST_CASE("what a thread holds reaches the other side while it waits for it, in whatever way, and calls nothing") {
  const FakeAgentOptions options = released_after(60'000 * kMillisecond, 100 * kMillisecond);
  for (const std::string how : {"poll", "read", "event", "condition variable", "memory", "computing"}) {
    INFO(how);
    CHECK(run_timing({"blocked", how}, options) == how + ": arrived 1 by this thread 0\n");
  }
}

TEST_CASE("what is held goes when the plan is taken back or the agent is gone, while its thread waits for it") {
  for (const bool gone : {false, true}) {
    const std::string socket = scratch_socket_path();
    const uint32_t cap = gone ? kWhileHolding : kFar;
    auto agent = std::make_unique<FakeAgent>(socket, released_after(60'000 * kMillisecond, cap));
    Program program({probe_path(), "blocked until told"},
                    {.agent_socket = socket, .environment = {{"PROBE_WAITS_FOR_AGENT", "1"}}});
    REQUIRE(program.wait_for_output("ready\n"));
    REQUIRE(agent->wait_for([&] { return agent->attachments() == 1; }));
    program.say("\n");
    REQUIRE(program.wait_for_output("held\n"));
    if (gone)
      agent.reset();
    else
      agent->publish({}, 1);
    CHECK(program.finish().out == "ready\n" + kHeld + "held\nthen: arrived 11 completions 2\n");
  }
}

TEST_CASE("the release thread is there from the first hold on until nothing is held, and comes back") {
  CHECK(run_timing({"life"}, released_after(60'000 * kMillisecond, 50 * kMillisecond)) ==
        "threads 1\nthreads 1\nfirst: arrived 1 by this thread 0\nthreads 2 of release 1\n"
        "parked: arrived 1 by this thread 0\nthreads 1\ngone: arrived 1 by this thread 0\nthreads 2 of release 1\n");
}

TEST_CASE("there is no thread where no plan holds anything, and nothing is held where there can be no thread") {
  CHECK(run_timing({"hold", "threads"}, released_after(60'000 * kMillisecond)) ==
        kHeld + "threads 2\nthreads: arrived 00 completions 0\n");
  FakeAgentOptions no_plan;
  CHECK(run_timing({"hold", "threads"}, no_plan) ==
        "posted 0 0 polled 2 arrived 11\nthreads 1\nthreads: arrived 11 completions 0\n");
  CHECK(run_timing({"hold", "threads"}, released_after(0)) ==
        "posted 0 0 polled 2 arrived 11\nthreads 1\nthreads: arrived 11 completions 0\n");
  const std::string socket = scratch_socket_path();
  FakeAgent agent(socket, released_after(60'000 * kMillisecond));
  const ProgramResult alone =
      AttachedProbe(agent, socket, {probe_path(), "never", "no more threads"}, {{"ORRERY_LOG", "error"}}).finish();
  CHECK(alone.out == "no more threads: arrived 1\n");
  CHECK(alone.err == "orrery: this process could not have one thread more, so no RDMA send is held back in it\n");
}

TEST_CASE("a program ends when it exits, or its last thread does, whatever is held") {
  CHECK(run_timing({"end", "exit"}, released_after(60'000 * kMillisecond)) == kHeld);
  CHECK(run_timing({"end", "last thread"}, released_after(60'000 * kMillisecond, kWhileHolding)) == kHeld);
}

TEST_CASE("a program may exit or fork while the release thread posts") {
  const FakeAgentOptions options = released_after(60'000 * kMillisecond, 50 * kMillisecond);
  CHECK(run_timing({"in post", "exit"}, options) == "");
  CHECK(run_timing({"in post", "fork"}, options) == "fork: arrived 1 child 0\n");
}

TEST_CASE("the release thread has the stack that a provider needs beside the program's thread-local storage") {
  const Environment large{{"LD_PRELOAD", preload_path() + ":" ORRERY_LARGE_TLS}};
  CHECK(run_timing({"in post", "much stack"}, released_after(60'000 * kMillisecond, 50 * kMillisecond), large) ==
        "much stack: arrived 1 child 0\n");
}

TEST_CASE("holding again and again makes no system call") {
  const std::string out = run_timing({"steady"}, released_after(kMillisecond / 5, kMillisecond));
  REQUIRE(values_of(out, "syscalls").size() == 1);
  // Of 1000 holds: nobody is woken, unless this thread was silent for so long in between that the other one parked.
  CHECK(values_of(out, "syscalls").at(0) < 100);
}

TEST_CASE("threads that post to queue pairs of their own and to a shared one lose nothing to the release thread") {
  CHECK(run_timing({"crowd"}, released_after(kMillisecond, 300'000)).ends_with(" wrong 0\n"));
}

TEST_CASE("a forked child posts nothing of what its parent holds") {
  CHECK(run_timing({"fork"}, released_after(60'000 * kMillisecond)) ==
        kHeld + "child 0\nparent: arrived 11 completions 2\n");
}

TEST_CASE("whatever is posted while sends are held and paced completes once and in order, as without the library") {
  for (const char* seed : {"1", "2", "3", "4"}) {
    const ProgramResult alone = run_program({probe_path(), "anything", seed}, {.preload = false});
    CHECK(run_timing({"anything", seed}, released_after(kMillisecond / 2, 1'000'000, 100'000)) == alone.out);
    CHECK(run_timing({"anything", seed}, released_after(kMillisecond / 10, 300'000)) == alone.out);
  }
}

namespace {

struct Moved {
  std::string out;
  std::vector<orrery_event> events;
};

// Runs `move HOW` with the plan's port 50000, then 51000.
Moved move(const char* how, const char* provider, Environment environment = {}) {
  const std::string socket = scratch_socket_path();
  FakeAgentOptions options;
  options.plan = from_port(50000);
  FakeAgent agent(socket, options);
  if (provider != nullptr) environment.emplace_back("FAKE_IBVERBS_PROVIDER", provider);
  AttachedProbe probe(agent, socket, {probe_path(), "move", how}, std::move(environment));
  REQUIRE(probe.program().wait_for_output("change\n"));
  agent.publish(from_port(51000), 60'000 * kMillisecond);
  probe.program().say("\n");
  REQUIRE(probe.program().wait_for_output("done\n"));
  probe.program().say("\n");
  Moved moved;
  const ProgramResult result = probe.finish();
  INFO(result.err);
  CHECK(result.status == 0);
  moved.out = result.out;
  moved.events = agent.events_of(ORRERY_EVENT_QP_MOVED);
  return moved;
}

const std::string kFirst = "at first: calls 0 state 3\nchange\n";

}  // namespace

TEST_CASE("on soft-RoCE an idle queue pair moves by way of SQD and is in RTS afterwards") {
  for (const char* how : {"", "slow drain"}) {
    const Moved moved = move(how, ORRERY_FAKE_RXE);
    const std::string calls = *how == '\0' ? "3" : "6";
    CHECK(moved.out == kFirst + "then: calls " + calls + " state 3\nlater: calls " + calls + " state 3\ndone\n");
    REQUIRE(moved.events.size() == 1);
    CHECK(moved.events[0].qp.udp_sport == 51000);
    CHECK((moved.events[0].qp.flags & ORRERY_QP_CAN_MOVE) != 0);
  }
}

TEST_CASE("a queue pair with something outstanding is left alone until it is idle") {
  const Moved moved = move("busy", ORRERY_FAKE_RXE);
  CHECK(moved.out == kFirst + "busy: calls 0 state 3\nthen: calls 3 state 3\nlater: calls 3 state 3\ndone\n");
  // Requests without completion are done when a later one is, and until then nobody knows.
  const Moved unsignaled = move("unsignaled", ORRERY_FAKE_RXE);
  CHECK(unsignaled.out == kFirst + "then: calls 0 state 3\nlater: calls 3 state 3\ndone\n");
}

TEST_CASE("a queue pair that refuses to move is back in RTS, reported as one that cannot, and not asked again") {
  const Moved moved = move("refused", ORRERY_FAKE_RXE);
  const size_t then = moved.out.find("then: calls "), later = moved.out.find("later: calls ");
  REQUIRE(then != std::string::npos);
  REQUIRE(later != std::string::npos);
  CHECK(moved.out.substr(then + 6, later - then - 6) == moved.out.substr(later + 7, later - then - 6));
  CHECK(moved.out.find("state 3\ndone\n") != std::string::npos);
  REQUIRE(moved.events.size() == 1);
  CHECK(moved.events[0].qp.udp_sport == 50000);
  CHECK((moved.events[0].qp.flags & ORRERY_QP_CAN_MOVE) == 0);
}

TEST_CASE("on mlx5 the provider's own function moves it; one that refuses is asked once") {
  const Moved moved = move("", ORRERY_FAKE_MLX5);
  CHECK(moved.out == kFirst + "sport 51000\nthen: calls 0 state 3\nlater: calls 0 state 3\ndone\n");
  REQUIRE(moved.events.size() == 1);
  CHECK(moved.events[0].qp.udp_sport == 51000);
  const Moved refused = move("", ORRERY_FAKE_MLX5, {{"FAKE_MLX5_SPORT_ERROR", "95"}});
  CHECK(refused.out == kFirst + "sport refused\nthen: calls 0 state 3\nlater: calls 0 state 3\ndone\n");
  REQUIRE(refused.events.size() == 1);
  CHECK((refused.events[0].qp.flags & ORRERY_QP_CAN_MOVE) == 0);
}

TEST_CASE("queue pairs of other providers stay where they are and say so") {
  const Moved moved = move("", nullptr);
  CHECK(moved.out == kFirst + "then: calls 0 state 3\nlater: calls 0 state 3\ndone\n");
  CHECK(moved.events.empty());
}

}  // namespace orrery
