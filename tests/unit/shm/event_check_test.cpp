#include "common/shm/event_check.h"

#include <catch2/catch.hpp>

#include "events.h"

namespace orrery::shm {
namespace {
constexpr uint64_t kNow = 5'000'000'000;
bool believed(const orrery_event& event) {
  return is_well_formed(event, 16, kNow);
}
}  // namespace

TEST_CASE("well-formed events of every type are believed") {
  CHECK(believed(collective_event(kNow, 1, 0)));
  CHECK(believed(flow_event(kNow, 15, 1)));
  orrery_event event{};
  event.time_ns = kNow;
  event.type = ORRERY_EVENT_GROUP_END;
  CHECK(believed(event));
  event.comm = {.comm_id = 9, .parent_id = 0, .rank = 3, .nranks = 4};
  for (uint32_t type : {ORRERY_EVENT_COMM_INIT, ORRERY_EVENT_COMM_READY, ORRERY_EVENT_COMM_GONE}) {
    event.type = type;
    CHECK(believed(event));
  }
  orrery_event gone = flow_event(kNow, 3, 7);
  gone.type = ORRERY_EVENT_FLOW_GONE;
  CHECK(believed(gone));
}

TEST_CASE("an event with a field out of range is not believed") {
  SECTION("type and time") {
    orrery_event event = collective_event(kNow, 1, 1);
    for (uint32_t type : {0u, 8u, 0xffffffffu}) {
      event.type = type;
      CHECK_FALSE(believed(event));
    }
    CHECK_FALSE(believed(collective_event(0, 1, 1)));
    CHECK_FALSE(believed(collective_event(kNow + 2 * kFutureToleranceNs, 1, 1)));
  }
  SECTION("communicators") {
    orrery_event event{};
    event.time_ns = kNow;
    event.type = ORRERY_EVENT_COMM_INIT;
    const orrery_comm_event wrong[] = {{0, 0, 0, 4}, {1, 0, 4, 4}, {1, 0, 0, 0}, {1, 0, 0, kMaxRanks + 1}};
    for (const orrery_comm_event& comm : wrong) {
      event.comm = comm;
      CHECK_FALSE(believed(event));
    }
  }
  SECTION("collectives") {
    CHECK_FALSE(believed(collective_event(kNow, 0, 1)));
    CHECK_FALSE(believed(collective_event(kNow, 1, uint64_t{1} << 60)));
    orrery_event event = collective_event(kNow, 1, 1);
    event.collective.op = ORRERY_OP_PUT + 1;
    CHECK_FALSE(believed(event));
    event.collective.op = ORRERY_OP_SEND;
    event.collective.peer = kMaxRanks;
    CHECK_FALSE(believed(event));
  }
  SECTION("flows") {
    CHECK_FALSE(believed(flow_event(kNow, 16, 1)));
    CHECK_FALSE(believed(flow_event(kNow, 0, 2)));
    orrery_event event = flow_event(kNow, 0, 1);
    event.flow.protocol = 1;
    CHECK_FALSE(believed(event));
    event = flow_event(kNow, 0, 1);
    event.flow.role = 3;
    CHECK_FALSE(believed(event));
    event = flow_event(kNow, 0, 1);
    event.flow.remote_port = 0;
    CHECK_FALSE(believed(event));
  }
}

}  // namespace orrery::shm
