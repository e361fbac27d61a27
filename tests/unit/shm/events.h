// Well-formed events for the tests of common/shm.
#pragma once

#include <cstring>

#include "common/abi/event_abi.h"

namespace orrery::shm {

inline orrery_event collective_event(uint64_t time_ns, uint64_t comm_id, uint64_t bytes) {
  orrery_event event{};
  event.time_ns = time_ns;
  event.type = ORRERY_EVENT_COLLECTIVE;
  event.collective.comm_id = comm_id;
  event.collective.bytes = bytes;
  event.collective.op = ORRERY_OP_ALL_REDUCE;
  event.collective.peer = 0xffffffffu;
  return event;
}

inline orrery_event flow_event(uint64_t time_ns, uint16_t slot, uint32_t generation) {
  orrery_event event{};
  event.time_ns = time_ns;
  event.type = ORRERY_EVENT_FLOW_BORN;
  event.flow.local_port = 40000;
  event.flow.remote_port = 5000;
  event.flow.protocol = 6;
  event.flow.role = ORRERY_ROLE_CONNECT;
  event.flow.slot = slot;
  event.flow.generation = generation;
  return event;
}

}  // namespace orrery::shm
