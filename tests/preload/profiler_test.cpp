// The profiler plug-in, driven as NCCL drives it, in every version: what it reports, what it never does, and that a
// plug-in of the user's sees through it what it would see alone.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "common/abi/comm_id_abi.h"
#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;
using Environment = std::vector<std::pair<std::string, std::string>>;

const std::string kHarness = ORRERY_PROFILER_HARNESS;
const std::string kPlugin = ORRERY_FAKE_PLUGIN;
constexpr uint32_t kNone = 0xffffffffu;
constexpr uint16_t kFrom = ORRERY_COLLECTIVE_FROM_PROFILER, kCaptured = ORRERY_COLLECTIVE_CAPTURED,
                   kReplay = ORRERY_COLLECTIVE_REPLAY;

struct Call {
  uint32_t op;
  uint64_t bytes;
  uint32_t peer;
  uint16_t flags;
  bool operator==(const Call&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << "op " << call.op << " bytes " << call.bytes << " peer " << static_cast<int>(call.peer) << " flags "
             << call.flags;
}

std::vector<Call> calls_of(const FakeAgent& agent) {
  std::vector<Call> calls;
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE))
    calls.push_back(
        {event.collective.op, event.collective.bytes, event.collective.peer, uint16_t{event.collective.flags}});
  return calls;
}

std::vector<std::string> command(const std::string& scenario, int version) {
  return {kHarness, scenario, std::to_string(version)};
}

ProgramResult run_harness(const FakeAgent& agent, const std::string& path, const std::string& scenario, int version,
                          Environment environment = {{"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"}}) {
  return AttachedProbe(agent, path, command(scenario, version), std::move(environment)).finish();
}

// What a hidden NCCL of that version shows of the tour.
std::vector<Call> tour(int version) {
  if (version == 3) return {};  // it never says how many ranks there are
  const uint16_t replay = version >= 5 ? kFrom | kReplay : kFrom;
  std::vector<Call> calls{{ORRERY_OP_ALL_GATHER, 20, kNone, kFrom}, {ORRERY_OP_ALL_REDUCE, 4000, kNone, kFrom},
                          {ORRERY_OP_SEND, 256, 2, kFrom},          {ORRERY_OP_RECV, 256, 0, kFrom},
                          {ORRERY_OP_ALL_GATHER, 20, kNone, kFrom}, {ORRERY_OP_BROADCAST, 10, 1, kFrom}};
  if (version >= 5) calls.push_back({ORRERY_OP_ALL_REDUCE, 4000, kNone, kFrom | kCaptured});
  for (int i = 0; i < 3; ++i) calls.push_back({ORRERY_OP_ALL_REDUCE, 4000, kNone, replay});
  calls.push_back({ORRERY_OP_ALL_REDUCE, 4000, kNone, kFrom});
  calls.push_back({ORRERY_OP_ALL_REDUCE, 4000, kNone, replay});
  calls.push_back({ORRERY_OP_ALL_REDUCE, 4000, kNone, kFrom});
  return calls;
}

uint64_t api_comm_id(char salt = 0) {
  orrery_u8 id[128];
  for (size_t i = 0; i < sizeof(id); ++i) id[i] = static_cast<orrery_u8>(i * 7 + 1);
  id[0] = static_cast<orrery_u8>(salt);
  return orrery_comm_id(id, sizeof(id));
}

class Log {
 public:
  Log() : path_(scratch_socket_path() + ".log") {}
  std::string path() const { return path_; }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  const std::string path_;
};

Environment with_plugin(const std::string& plugin, const Log& log, int mask) {
  return {{"NCCL_PROFILER_PLUGIN", plugin},
          {"FAKE_PROFILER_LOG", log.path()},
          {"FAKE_PROFILER_MASK", std::to_string(mask)}};
}
Environment with_chain(const std::string& plugin, const Log& log, int mask) {
  Environment environment = with_plugin("STATIC_PLUGIN", log, mask);
  environment.emplace_back("ORRERY_PROFILER_CHAIN", plugin);
  return environment;
}

std::string seen_alone(const std::string& plugin, int version, int mask) {
  const Log log;
  const auto result =
      run_program(command("hidden", version), {.preload = false, .environment = with_plugin(plugin, log, mask)});
  CHECK(result.status == 0);
  return log.text();
}

}  // namespace

TEST_CASE("a hidden NCCL of every version is told of by the profiler alone, call by call") {
  for (int version = 1; version <= 6; ++version)
    for (const std::string& way : {std::string("STATIC_PLUGIN"), preload_path()}) {
      INFO("version " << version << " " << way);
      const std::string path = scratch_socket_path();
      FakeAgent agent(path, {});
      const auto result = run_harness(agent, path, "hidden", version, {{"NCCL_PROFILER_PLUGIN", way}});
      CHECK(result.status == 0);
      CHECK(result.out == "loaded 1 mask 6\nunloaded 1\n");
      CHECK(result.err.empty());
      CHECK(calls_of(agent) == tour(version));
    }
}

TEST_CASE("a hidden NCCL's communicators are announced, ready and gone, and calls bear their ids and groups") {
  for (int version : {1, 2, 4, 5, 6}) {
    INFO("version " << version);
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    run_harness(agent, path, "hidden", version);
    const auto made = agent.events_of(ORRERY_EVENT_COMM_INIT);
    REQUIRE(made.size() == 2);
    CHECK(made[0].comm.rank == 1);
    CHECK(made[0].comm.nranks == 4);
    CHECK(made[1].comm.rank == 0);
    CHECK(made[1].comm.nranks == 2);
    CHECK(made[0].comm.comm_id != made[1].comm.comm_id);
    CHECK(agent.doorbells() == 2);
    const auto gone = agent.events_of(ORRERY_EVENT_COMM_GONE);
    REQUIRE(gone.size() == 2);
    CHECK(gone[0].comm.comm_id == made[1].comm.comm_id);
    CHECK(gone[1].comm.comm_id == made[0].comm.comm_id);
    std::set<uint64_t> ready;
    for (const orrery_event& event : agent.events()) {
      if (event.type == ORRERY_EVENT_COMM_READY) ready.insert(event.comm.comm_id);
      if (event.type == ORRERY_EVENT_COLLECTIVE && (event.collective.flags & kCaptured) == 0)
        CHECK(ready.contains(event.collective.comm_id));
    }
    CHECK(agent.events_of(ORRERY_EVENT_COMM_READY).size() == 2);
    const auto calls = agent.events_of(ORRERY_EVENT_COLLECTIVE);
    CHECK(calls[2].collective.group == calls[3].collective.group);
    CHECK(calls[1].collective.group != calls[2].collective.group);
    const auto ends = agent.events_of(ORRERY_EVENT_GROUP_END);
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].group.group == calls[2].collective.group);
    CHECK(ends[0].group.calls == 2);
  }
}

TEST_CASE("the same communicator has the same id in every process and every version") {
  std::set<uint64_t> ids;
  for (int version : {1, 2, 4, 5, 6}) {
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    run_harness(agent, path, "hidden", version);
    ids.insert(agent.events_of(ORRERY_EVENT_COMM_INIT).at(0).comm.comm_id);
  }
  CHECK(ids.size() == 1);
}

TEST_CASE("NCCL may close the plug-in with its last communicator and open it again") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_harness(agent, path, "hidden-twice", 6);
  CHECK(result.status == 0);
  CHECK(agent.events_of(ORRERY_EVENT_COMM_GONE).size() == 4);
  CHECK(calls_of(agent).size() == 2 * tour(6).size());
}

TEST_CASE("events of eight threads are whole and none is missing") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.shape = {.ring_count = 16, .ring_events = 1024, .flow_slots = 8}});
  run_harness(agent, path, "hidden-threads", 6);
  CHECK(agent.dropped() == 0);
  std::map<uint64_t, int> by_comm;
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE)) ++by_comm[event.collective.comm_id];
  CHECK(by_comm.size() == 8);
  for (const auto& [comm, calls] : by_comm) CHECK(calls == 50);
}

TEST_CASE("attached, a graph's replay makes no system call") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_harness(agent, path, "hidden-syscalls", 6);
  REQUIRE(result.status == 0);
  // A look at the connection, a few calls, is due every 250 ms, however long the 50,000 replays take on this machine.
  CHECK(values_of(result.out, "syscalls").at(0) < 1000);
  CHECK(agent.events_of(ORRERY_EVENT_COLLECTIVE).size() + agent.dropped() >= 50'000);
}

TEST_CASE("no two communicators share a context, though they come and go on several threads") {
  const auto result = run_program(command("churn", 6), {});
  CHECK(result.out == "shared 0\n");
}

TEST_CASE("whatever NCCL hands the plug-in, in any order and any number of times, it says success and stays whole") {
  for (int version = 1; version <= 6; ++version) {
    INFO("version " << version);
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    const auto result = run_harness(agent, path, "hostile", version);
    CHECK(result.status == 0);
    CHECK(result.out == "failures 0 mask 6 context 1\n");
  }
}

TEST_CASE("hostile sequences do not reach through to a plug-in behind ours but as they came") {
  const Log log;
  const auto result = run_program(command("hostile", 6), {.environment = with_chain(kPlugin, log, 0)});
  CHECK(result.status == 0);
}

TEST_CASE("calls that the API wrappers report are reported once, and replays under the API's id") {
  for (int version : {5, 6}) {
    INFO("version " << version);
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    const auto result = run_harness(agent, path, "api", version);
    CHECK(result.out == "done\n");
    std::vector<Call> expected{{ORRERY_OP_ALL_REDUCE, 40, kNone, 0},
                               {ORRERY_OP_ALL_REDUCE, 80, kNone, kCaptured},
                               {ORRERY_OP_SEND, 120, 2, kCaptured},
                               {ORRERY_OP_RECV, 120, 0, kCaptured}};
    for (int i = 0; i < 3; ++i) {
      expected.push_back({ORRERY_OP_ALL_REDUCE, 80, kNone, kFrom | kReplay});
      expected.push_back({ORRERY_OP_SEND, 120, 2, kFrom | kReplay});
      expected.push_back({ORRERY_OP_RECV, 120, 0, kFrom | kReplay});
    }
    expected.push_back({ORRERY_OP_ALL_REDUCE, 160, kNone, 0});
    std::vector<Call> calls = calls_of(agent);
    const auto by_text = [](const Call& a, const Call& b) {
      return std::tie(a.op, a.bytes, a.flags) < std::tie(b.op, b.bytes, b.flags);
    };
    std::sort(calls.begin(), calls.end(), by_text);  // replays come from a thread, and ring, of their own
    std::sort(expected.begin(), expected.end(), by_text);
    CHECK(calls == expected);
    for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE))
      CHECK(event.collective.comm_id == api_comm_id());
    CHECK(agent.events_of(ORRERY_EVENT_COMM_INIT).size() == 1);
    CHECK(agent.events_of(ORRERY_EVENT_COMM_GONE).size() == 1);
  }
}

TEST_CASE("where NCCL does not tell of captures, every launch of a graph counts once") {
  for (int version = 1; version <= 4; ++version) {
    INFO("version " << version);
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    run_harness(agent, path, "api", version);
    std::map<uint16_t, int> by_flags;
    for (const Call& call : calls_of(agent)) ++by_flags[call.flags];
    // Two ordinary calls, and three captured ones that stand for the graph's first launch; two more launches of three.
    CHECK(by_flags == std::map<uint16_t, int>{{0, 5}, {kFrom | kReplay, 6}});
  }
}

TEST_CASE("communicators made all at once, grouped, late or as children keep their API ids in replays") {
  for (int version = 1; version <= 6; ++version) {
    INFO("version " << version);
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    const auto result = run_harness(agent, path, "api-many", version);
    CHECK(result.out == "done\n");
    CHECK(agent.events_of(ORRERY_EVENT_COMM_INIT).size() == 7);
    std::map<uint64_t, uint64_t> id_of_captured, replays;
    for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE))
      if ((event.collective.flags & kReplay) == 0) id_of_captured[event.collective.bytes] = event.collective.comm_id;
    for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE)) {
      if ((event.collective.flags & kReplay) == 0) continue;
      ++replays[event.collective.bytes];
      CHECK(id_of_captured[event.collective.bytes] == event.collective.comm_id);
    }
    // Versions 1 to 3 tell only the rank, which several have here: what cannot be named for certain is left out.
    if (version >= 4) CHECK(replays.size() == 7);
    if (version <= 3) CHECK(replays.size() >= 2);
    for (const auto& [bytes, count] : replays) CHECK(count == (version >= 5 ? 2u : 1u));
  }
}

TEST_CASE("a hidden NCCL beside one with wrappers is told apart from it") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  run_harness(agent, path, "api-and-hidden", 6);
  CHECK(calls_of(agent) ==
        std::vector<Call>{{ORRERY_OP_ALL_REDUCE, 40, kNone, 0}, {ORRERY_OP_ALL_GATHER, 20, kNone, kFrom}});
  CHECK(agent.events_of(ORRERY_EVENT_COMM_INIT).size() == 2);
  CHECK(agent.events_of(ORRERY_EVENT_COMM_GONE).size() == 2);
}

TEST_CASE("switched off or told to stand down, the plug-in asks for nothing") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  for (const char* way : {"ORRERY_DISABLE", "ORRERY_PROFILER"}) {
    const auto result =
        run_program(command("hidden", 6),
                    {.agent_socket = path,
                     .environment = {{"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"}, {way, way[7] == 'D' ? "1" : "0"}}});
    CHECK(result.out == "loaded 1 mask 0\nunloaded 1\n");
  }
  CHECK(calls_of(agent).empty());
}

TEST_CASE("without NCCL_PROFILER_PLUGIN NCCL finds no plug-in, with the library as without") {
  for (const bool preload : {false, true})
    CHECK(run_program(command("hidden", 6), {.preload = preload}).out == "loaded 0 mask 0\nunloaded 1\n");
}

TEST_CASE("a plug-in under the default name of NCCL or of RCCL is found as without us, and stands behind ours") {
  for (const bool rccl : {false, true}) {
    INFO("RCCL " << rccl);
    const std::filesystem::path directory = scratch_socket_path() + ".d";
    std::filesystem::create_directory(directory);
    std::filesystem::create_symlink(kPlugin, directory / (rccl ? "librccl-profiler.so" : "libnccl-profiler.so"));
    const Log alone, behind;
    for (const Log* log : {&alone, &behind}) {
      Environment environment = with_plugin("", *log, 8);
      environment.emplace_back("LD_LIBRARY_PATH", directory.string());
      if (rccl) environment.emplace_back("PROFILED_RCCL", "1");
      const bool preload = log == &behind;
      const auto result = run_program(command("hidden", 6), {.preload = preload, .environment = environment});
      CHECK(result.out == "loaded 1 mask " + std::string(preload ? "14" : "8") + "\nunloaded 1\n");
    }
    CHECK(!alone.text().empty());
    CHECK(behind.text() == alone.text());
    std::filesystem::remove_all(directory);
  }
}

TEST_CASE("without an agent a hidden NCCL is unaffected") {
  const auto result = run_program(command("hidden", 6), {.environment = {{"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"}}});
  CHECK(result.status == 0);
  CHECK(result.out == "loaded 1 mask 6\nunloaded 1\n");
  CHECK(result.err.empty());
}

TEST_CASE("a plug-in of the user's sees through ours exactly what it sees alone, whatever it asks for") {
  for (int version = 1; version <= 6; ++version)
    for (int mask : {0, 1, 2, 4, 6, 8, 24, 63, version >= 5 ? 4095 : 62, version >= 5 ? 256 : 32}) {
      INFO("version " << version << " mask " << mask);
      const std::string alone = seen_alone(kPlugin, version, mask);
      const Log hooked, chained;
      const auto by_hook = run_program(command("hidden", version), {.environment = with_plugin(kPlugin, hooked, mask)});
      const auto by_name = run_program(command("hidden", version), {.environment = with_chain(kPlugin, chained, mask)});
      CHECK(by_hook.out == "loaded 1 mask " + std::to_string(mask | 6) + "\nunloaded 1\n");
      CHECK(by_name.out == by_hook.out);
      CHECK(hooked.text() == alone);
      CHECK(chained.text() == alone);
      CHECK(alone.find("UNKNOWN") == std::string::npos);
    }
}

TEST_CASE("with a plug-in of the user's behind us the agent is told the same") {
  for (int mask : {0, 63, 4095}) {
    INFO("mask " << mask);
    const Log log;
    const std::string path = scratch_socket_path();
    FakeAgent agent(path, {});
    run_harness(agent, path, "hidden", 6, with_plugin(kPlugin, log, mask));
    CHECK(calls_of(agent) == tour(6));
    CHECK(agent.events_of(ORRERY_EVENT_GROUP_END).size() == 1);
  }
}

TEST_CASE("a plug-in of the user's is told of every communicator, though several are made while it is being loaded") {
  const Log log;
  Environment environment = with_chain(kPlugin, log, 0);
  environment.emplace_back("FAKE_PROFILER_SLOW", "1");
  const auto result = run_program(command("hidden-threads", 6), {.environment = environment});
  CHECK(result.out == "done\n");
  size_t made = 0, ended = 0;
  std::istringstream lines(log.text());
  for (std::string line; std::getline(lines, line);) {
    made += line.starts_with("init ");
    ended += line.starts_with("finalize ");
  }
  CHECK(made == 8);
  CHECK(ended == 8);
}

TEST_CASE("a plug-in of an older version gets the descriptors of its own") {
  for (int mask : {6, 62}) {
    const Log chained;
    run_program(command("hidden", 5), {.environment = with_chain(ORRERY_FAKE_PLUGIN_V4, chained, mask)});
    CHECK(chained.text() == seen_alone(ORRERY_FAKE_PLUGIN_V4, 4, mask));
  }
  const Log oldest;
  run_program(command("hidden", 6), {.environment = with_chain(ORRERY_FAKE_PLUGIN_V1, oldest, 6)});
  CHECK(oldest.text().find("type 2 parent #3: n4 1000 n7 0 0\n") == std::string::npos);
  CHECK(oldest.text().find(": n4 1000 n7 0 ") != std::string::npos);
  CHECK(oldest.text().find(": n6 64 n7 2\n") != std::string::npos);
}

TEST_CASE("a plug-in of the user's that refuses, or is none, takes nothing from ours") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const Log log;
  Environment environment = with_chain(kPlugin, log, 63);
  environment.emplace_back("FAKE_PROFILER_REFUSES", "1");
  CHECK(run_harness(agent, path, "hidden", 6, environment).out == "loaded 1 mask 6\nunloaded 1\n");
  CHECK(calls_of(agent) == tour(6));
  CHECK(log.text().empty());
  const auto none = run_program(command("hidden", 6), {.environment = {{"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"},
                                                                       {"ORRERY_PROFILER_CHAIN", "/nonexistent.so"},
                                                                       {"ORRERY_LOG", "error"}}});
  CHECK(none.out == "loaded 1 mask 6\nunloaded 1\n");
  CHECK(none.err == "orrery: ORRERY_PROFILER_CHAIN cannot be loaded or is no profiler plug-in: /nonexistent.so\n");
}

}  // namespace orrery
