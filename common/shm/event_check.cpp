#include "common/shm/event_check.h"

#include <netinet/in.h>
#include <string.h>

namespace orrery::shm {
namespace {

bool check(const orrery_comm_event& comm) {
  return comm.comm_id != 0 && comm.nranks >= 1 && comm.nranks <= kMaxRanks && comm.rank < comm.nranks;
}

bool check(const orrery_collective_event& collective) {
  return collective.comm_id != 0 && collective.op >= ORRERY_OP_ALL_REDUCE && collective.op <= ORRERY_OP_PUT &&
         collective.bytes <= uint64_t{1} << 48 && (collective.peer < kMaxRanks || collective.peer == 0xffffffffu);
}

bool check(const orrery_flow_event& flow, uint32_t flow_slots) {
  return flow.slot < flow_slots && (flow.generation & 1) && flow.local_port != 0 && flow.remote_port != 0 &&
         (flow.protocol == IPPROTO_TCP || flow.protocol == IPPROTO_UDP) &&
         (flow.role == ORRERY_ROLE_CONNECT || flow.role == ORRERY_ROLE_ACCEPT);
}

bool check(const orrery_qp_event& qp, uint32_t flow_slots) {
  return qp.slot < flow_slots && (qp.generation & 1) && qp.qpn != 0 && qp.udp_sport != 0 &&
         memchr(qp.device, '\0', sizeof(qp.device)) != nullptr;
}

}  // namespace

bool is_well_formed(const orrery_event& event, uint32_t flow_slots, uint64_t now_ns) {
  if (event.time_ns == 0 || event.time_ns > now_ns + kFutureToleranceNs) return false;
  switch (event.type) {
    case ORRERY_EVENT_COMM_INIT:
    case ORRERY_EVENT_COMM_READY:
      return check(event.comm);
    case ORRERY_EVENT_COMM_GONE:
      return event.comm.comm_id != 0;
    case ORRERY_EVENT_COLLECTIVE:
      return check(event.collective);
    case ORRERY_EVENT_GROUP_END:
      return true;
    case ORRERY_EVENT_FLOW_BORN:
      return check(event.flow, flow_slots);
    case ORRERY_EVENT_FLOW_GONE:
      return event.flow.slot < flow_slots && (event.flow.generation & 1);
    case ORRERY_EVENT_QP_READY:
    case ORRERY_EVENT_QP_MOVED:
      return check(event.qp, flow_slots);
    case ORRERY_EVENT_DEVICE_TRAFFIC:
      return event.comm.comm_id != 0;
    default:
      return false;
  }
}

}  // namespace orrery::shm
