// Communicators that have no handle yet, in this process.
#include "agent/preload/nccl_pending.h"

#include <catch2/catch.hpp>

namespace orrery::preload {

TEST_CASE("a communicator in the making is given back once, to whom it waits for, with all that is known of it") {
  int owner = 0, another = 0, parent = 0;
  void* place = nullptr;
  PendingComm made{.owner = &owner, .copy = 2, .place = &place, .parent = &parent, .facts = {}, .ticket = 77};
  made.facts.comm_id = 5;
  REQUIRE(add_pending_comm(made) != nullptr);
  int given = 0;
  const auto settle = [&](const PendingComm& taken) {
    ++given;
    CHECK(taken.copy == 2);
    CHECK(taken.place == &place);
    CHECK(taken.parent == &parent);
    CHECK(taken.facts.comm_id == 5);
    CHECK(taken.ticket == 77);
  };
  take_pending_comms(&another, 2, settle);
  take_pending_comms(&owner, 1, settle);
  CHECK(given == 0);
  take_pending_comms(&owner, 2, settle);
  take_pending_comms(&owner, 2, settle);
  CHECK(given == 1);
}

TEST_CASE("more communicators in the making than there is room for are refused, and their room returns") {
  int owner = 0;
  const PendingComm made{.owner = &owner, .copy = 0, .place = nullptr, .parent = nullptr, .facts = {}, .ticket = 0};
  for (int round = 0; round < 2; ++round) {
    uint32_t added = 0, given = 0;
    while (add_pending_comm(made) != nullptr) ++added;
    CHECK(added == kMaxPendingComms);
    take_pending_comms(&owner, 0, [&](const PendingComm&) { ++given; });
    CHECK(given == added);
  }
}

}  // namespace orrery::preload
