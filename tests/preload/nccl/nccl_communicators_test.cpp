// Who a communicator is: the same number on all of its ranks, in whatever way it was made.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "common/abi/comm_id_abi.h"
#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;
using fakes::FakeAgentOptions;

struct Run {
  ProgramResult result;
  std::vector<orrery_event> events;

  std::vector<orrery_event> of(uint32_t type) const {
    std::vector<orrery_event> some;
    for (const orrery_event& event : events)
      if (event.type == type) some.push_back(event);
    return some;
  }
};

Run run(const std::string& program, const std::string& what, const FakeAgentOptions& options = {}) {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, options);
  Run run;
  const std::vector<std::string> command{std::string(ORRERY_NCCL_DIRECTORY "/communicators_") + program, what};
  run.result = AttachedProbe(agent, path, command, {}).finish();
  CHECK(run.result.status == 0);
  CHECK(run.result.err == "");
  CHECK(run.result.out == run_program(command, {.preload = false}).out);
  run.events = agent.events();
  return run;
}

FakeAgentOptions agent_of_version_1() {
  FakeAgentOptions options;
  options.abi_version = 1;
  options.shape.qp_counters = false;
  return options;
}

// By stage, the id that each rank used.
std::map<uint64_t, std::map<uint64_t, uint64_t>> ids_by_stage(const Run& run) {
  std::map<uint64_t, std::map<uint64_t, uint64_t>> stages;
  for (const orrery_event& event : run.of(ORRERY_EVENT_COLLECTIVE))
    stages[event.collective.bytes / 100][event.collective.bytes % 100] = event.collective.comm_id;
  return stages;
}

}  // namespace

TEST_CASE("all ranks of a communicator know it by one number, also when it was split, shrunk or grown") {
  const Run run = orrery::run("2.30", "lineage");
  const auto stages = ids_by_stage(run);
  const std::map<uint64_t, size_t> ranks{{1, 4}, {2, 4}, {3, 4}, {4, 4},  {5, 5}, {6, 5},
                                         {7, 4}, {8, 4}, {9, 5}, {10, 5}, {11, 6}};
  REQUIRE(stages.size() == ranks.size());
  std::set<uint64_t> different;
  for (const auto& [stage, ids] : stages) {
    INFO("stage " << stage);
    CHECK(ids.size() == ranks.at(stage));
    std::set<uint64_t> same;
    for (const auto& [rank, id] : ids) same.insert(id);
    CHECK(same.size() == 1);
    different.insert(same.begin(), same.end());
  }
  CHECK(different.size() == stages.size());

  std::map<uint64_t, size_t> announced;
  for (const orrery_event& event : run.of(ORRERY_EVENT_COMM_INIT)) ++announced[event.comm.comm_id];
  for (uint64_t stage : {5, 6, 9, 11}) {
    INFO("grown, stage " << stage);
    CHECK(announced[stages.at(stage).begin()->second] == ranks.at(stage));
  }
}

TEST_CASE("a rank that can't know who a grown communicator is stays silent about it") {
  const auto stages = ids_by_stage(run("2.30", "grow-what-was-made-at-once"));
  REQUIRE(stages.size() == 1);
  const auto& ids = stages.begin()->second;
  REQUIRE(ids.size() == 2);  // the rank that asked for the unique id, and the new one
  CHECK(ids.count(0) == 1);
  CHECK(ids.count(2) == 1);
  CHECK(ids.at(0) == ids.at(2));
}

TEST_CASE("a communicator that does not block is known when it is ready, and so are its children") {
  const Run run = orrery::run("2.30", "non-blocking");
  const auto ready = run.of(ORRERY_EVENT_COMM_READY);
  REQUIRE(ready.size() == 3);
  CHECK(ready[0].comm.nranks == 4);
  CHECK(ready[0].comm.rank == 1);
  for (size_t child : {1, 2}) {
    CHECK(ready[child].comm.parent_id == ready[0].comm.comm_id);
    CHECK(ready[child].comm.nranks == 2);
    CHECK(ready[child].comm.rank == 0);
  }
  const auto calls = run.of(ORRERY_EVENT_COLLECTIVE);
  REQUIRE(calls.size() == 4);
  CHECK(calls[1].collective.comm_id == ready[1].comm.comm_id);
  CHECK(calls[2].collective.comm_id == ready[2].comm.comm_id);
  CHECK(calls[3].collective.comm_id == ready[2].comm.comm_id);
  CHECK(ready[1].comm.comm_id != ready[2].comm.comm_id);
}

TEST_CASE("only destroy and abort end a communicator, and a failed init takes its announcement back") {
  const Run run = orrery::run("2.30", "ends");
  const auto begun = run.of(ORRERY_EVENT_COMM_INIT), gone = run.of(ORRERY_EVENT_COMM_GONE);
  REQUIRE(begun.size() == 5);
  REQUIRE(gone.size() == 3);
  CHECK(gone[0].comm.rank == 0);
  CHECK(gone[1].comm.rank == 1);
  CHECK(gone[2].comm.comm_id == begun[4].comm.comm_id);
  CHECK(gone[2].comm.comm_id != gone[1].comm.comm_id);
  CHECK(run.of(ORRERY_EVENT_COLLECTIVE).size() == 5);
}

TEST_CASE("a device communicator is told once, to an agent that knows the event") {
  const Run run = orrery::run("2.30", "device");
  const auto told = run.of(ORRERY_EVENT_DEVICE_TRAFFIC);
  REQUIRE(told.size() == 1);
  CHECK(told[0].comm.rank == 1);
  CHECK(told[0].comm.comm_id == run.of(ORRERY_EVENT_COMM_INIT).at(0).comm.comm_id);
  CHECK(orrery::run("2.30", "device", agent_of_version_1()).of(ORRERY_EVENT_DEVICE_TRAFFIC).empty());
}

TEST_CASE("a put is told with its bytes, signals are not, and an older agent hears of neither") {
  const Run run = orrery::run("2.30", "one-sided");
  const auto calls = run.of(ORRERY_EVENT_COLLECTIVE);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].collective.op == ORRERY_OP_PUT);
  CHECK(calls[0].collective.bytes == 20);
  CHECK(calls[0].collective.peer == 1);
  const auto older = orrery::run("2.30", "one-sided", agent_of_version_1()).of(ORRERY_EVENT_COLLECTIVE);
  REQUIRE(older.size() == 1);
  CHECK(older[0].collective.op == ORRERY_OP_ALL_REDUCE);
}

TEST_CASE("RCCL's own collectives are told, an uneven exchange with what this rank sends") {
  const auto calls = run("rccl", "uneven").of(ORRERY_EVENT_COLLECTIVE);
  std::vector<std::pair<uint32_t, uint64_t>> seen;
  for (const orrery_event& event : calls) seen.push_back({event.collective.op, event.collective.bytes});
  CHECK(seen == std::vector<std::pair<uint32_t, uint64_t>>{{ORRERY_OP_ALL_TO_ALL_V, (10 + 11 + 12) * 2},
                                                           {ORRERY_OP_ALL_TO_ALL, 14},
                                                           {ORRERY_OP_GATHER, 16},
                                                           {ORRERY_OP_SCATTER, 18},
                                                           {ORRERY_OP_ALL_REDUCE, 20}});
}

}  // namespace orrery
