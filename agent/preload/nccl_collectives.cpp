// What the agent learns of a collective or point-to-point call: one clock reading, one table lookup, one ring push.
#include "agent/preload/nccl_layer.h"
#include "agent/preload/profiler_comms.h"

namespace orrery::preload {
namespace {

constexpr uint32_t kVersionOfNewOperations = 2;

void join_group(Thread& self, ThreadGroup& group, ncclComm_t handle, uint32_t copy) {
  ++group.calls;
  for (uint32_t i = 0; i < self.group_comm_count; ++i)
    if (self.group_comms[i].handle == handle && self.group_comms[i].copy == copy) return;
  if (self.group_comm_count < kMaxGroupComms) self.group_comms[self.group_comm_count++] = {handle, copy};
}

uint64_t elements_of(const Operation& operation, uint32_t nranks) {
  if (operation.counts == nullptr) return operation.count;
  uint64_t sum = 0;
  for (uint32_t rank = 0; rank < nranks; ++rank) sum += operation.counts[rank];
  return sum;
}

bool agent_knows(orrery_collective_op op) {
  return op <= ORRERY_OP_SCATTER || attachment.abi_version >= kVersionOfNewOperations;
}

void emit_collective(const Operation& operation, const Comm& comm, uint32_t group, uint64_t now) {
  orrery_event event;
  event.time_ns = now;
  event.type = ORRERY_EVENT_COLLECTIVE;
  event.collective.comm_id = comm.comm_id;
  event.collective.bytes = elements_of(operation, comm.nranks) * nccl_type_bytes(operation.type);
  event.collective.op = operation.op;
  event.collective.peer = static_cast<uint32_t>(operation.peer);
  event.collective.group = group;
  event.collective.datatype = static_cast<uint8_t>(operation.type);
  event.collective.reduction = static_cast<uint8_t>(
      operation.reduction >= 0 && operation.reduction < kNcclFirstCustomOp ? operation.reduction : 255);
  event.collective.flags = 0;
  if (comm.profiled == 0) [[likely]]
    emit(event);
  else
    profiled_call(comm, event);
}

}  // namespace

void note_collective(const Operation& operation, ncclComm_t handle, NcclCopy& copy) {
  Thread& self = thread_state;
  ThreadGroup& open = self.groups[copy.number()];
  uint32_t group = open.number;
  if (open.level == 0)
    group = ++self.last_group_number;
  else
    join_group(self, open, handle, copy.number());
  const uint64_t now = now_ns();
  Comm* comm = find_comm(handle);
  if (comm != nullptr && comm->comm_id != 0) {
    if (comm->nranks == 0) [[unlikely]]
      complete(comm);
    note_collective_start(comm, now);
    if (agent_knows(operation.op)) emit_collective(operation, *comm, group, now);
  }
  tick(now);
}

}  // namespace orrery::preload
