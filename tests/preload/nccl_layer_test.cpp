// What the agent learns from NCCL calls, and that NCCL's own calls to itself are not taken for the application's.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "common/abi/comm_id_abi.h"
#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

using fakes::FakeAgent;

uint64_t fake_comm_id() {
  orrery_u8 id[128];
  for (size_t i = 0; i < sizeof(id); ++i) id[i] = static_cast<orrery_u8>(i * 7 + 1);
  return orrery_comm_id(id, sizeof(id));
}

struct Call {
  uint32_t op;
  uint64_t bytes;
  uint32_t peer;
  uint8_t reduction;
  bool operator==(const Call&) const = default;
};

}  // namespace

TEST_CASE("each call is recorded once, with what it says, in order") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  const auto result = run_attached_probe(agent, path, {"nccl-tour"});
  CHECK(result.out == run_program({probe_path(), "nccl-tour"}, {.preload = false}).out);
  CHECK(result.err.empty());

  std::vector<Call> calls;
  std::vector<orrery_event> raw = agent.events_of(ORRERY_EVENT_COLLECTIVE);
  for (const orrery_event& event : raw)
    calls.push_back({event.collective.op, event.collective.bytes, event.collective.peer, event.collective.reduction});
  const uint32_t none = 0xffffffffu;
  const std::vector<Call> expected{
      {ORRERY_OP_ALL_REDUCE, 4000, none, 0},
      {ORRERY_OP_ALL_GATHER, 20, none, 255},
      {ORRERY_OP_REDUCE_SCATTER, 80, none, 255},
      {ORRERY_OP_BROADCAST, 5, 2, 255},
      {ORRERY_OP_REDUCE, 40, 3, 2},
      {ORRERY_OP_SEND, 256, 2, 255},
      {ORRERY_OP_RECV, 256, 0, 255},
      {ORRERY_OP_ALL_REDUCE, 4, none, 0},
  };
  REQUIRE(calls == expected);
  CHECK(raw[5].collective.group == raw[6].collective.group);
  std::set<uint32_t> groups;
  for (const orrery_event& event : raw) groups.insert(event.collective.group);
  CHECK(groups.size() == 7);
  const auto ends = agent.events_of(ORRERY_EVENT_GROUP_END);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].group.group == raw[5].collective.group);
  CHECK(ends[0].group.calls == 2);
}

TEST_CASE("a communicator is announced before NCCL makes it, with a doorbell, and its end is told") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {});
  run_attached_probe(agent, path, {"nccl-tour"});
  const uint64_t parent = fake_comm_id();
  const uint64_t child = orrery_child_comm_id(parent, 0, 1);
  std::vector<std::pair<uint32_t, uint64_t>> seen;
  for (const orrery_event& event : agent.events())
    if (event.type >= ORRERY_EVENT_COMM_INIT && event.type <= ORRERY_EVENT_COMM_GONE)
      seen.push_back({event.type, event.comm.comm_id});
  CHECK(seen == std::vector<std::pair<uint32_t, uint64_t>>{{ORRERY_EVENT_COMM_INIT, parent},
                                                           {ORRERY_EVENT_COMM_READY, parent},
                                                           {ORRERY_EVENT_COMM_INIT, child},
                                                           {ORRERY_EVENT_COMM_READY, child},
                                                           {ORRERY_EVENT_COMM_GONE, child},
                                                           {ORRERY_EVENT_COMM_GONE, parent}});
  const auto announced = agent.events_of(ORRERY_EVENT_COMM_INIT);
  CHECK(announced[0].comm.rank == 1);
  CHECK(announced[0].comm.nranks == 4);
  CHECK(announced[1].comm.parent_id == parent);
  CHECK(announced[1].comm.nranks == 2);
  CHECK(agent.doorbells() == 2);
  CHECK(agent.events().front().type == ORRERY_EVENT_COMM_INIT);
}

TEST_CASE("communicators made all at once, in groups, non-blocking, and at reused addresses are told apart") {
  const std::string path = scratch_socket_path();
  FakeAgent agent(path, {.shape = {.ring_count = 2, .ring_events = 1u << 16, .flow_slots = 8}});
  const auto result = run_attached_probe(agent, path, {"many-comms"});
  CHECK(result.out == run_program({probe_path(), "many-comms"}, {.preload = false}).out);
  CHECK(result.out.find("lost") == std::string::npos);
  CHECK(agent.dropped() == 0);
  std::map<uint64_t, int> alive;
  std::set<uint64_t> all_ids;
  size_t unknown = 0, inits = 0;
  for (const orrery_event& event : agent.events()) {
    if (event.type == ORRERY_EVENT_COMM_INIT) {
      ++alive[event.comm.comm_id];
      all_ids.insert(event.comm.comm_id);
      ++inits;
    } else if (event.type == ORRERY_EVENT_COMM_GONE) {
      --alive[event.comm.comm_id];
    } else if (event.type == ORRERY_EVENT_COLLECTIVE) {
      unknown += alive[event.collective.comm_id] < 1;
    }
  }
  CHECK(unknown == 0);
  CHECK(inits == 3 + 2 + 1 + 3000);
  CHECK(agent.events_of(ORRERY_EVENT_COLLECTIVE).size() == 3 + 2 + 1 + 3000);
  CHECK(all_ids.size() ==
        1 + 256);  // init all's own; 256 ids by salt, one of which the group and the non-blocking one share
}

}  // namespace orrery
