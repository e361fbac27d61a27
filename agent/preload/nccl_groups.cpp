// Groups, and the functions that answer without a communicator. A thread has one group per copy of NCCL.
#include "agent/preload/nccl_layer.h"

namespace orrery::preload {
namespace {

void note_starts(const Thread& self, uint32_t copy) {
  const uint64_t now = now_ns();
  for (uint32_t i = 0; i < self.group_comm_count; ++i) {
    if (self.group_comms[i].copy != copy) continue;
    if (Comm* comm = find_comm(self.group_comms[i].handle)) note_collective_start(comm, now);
  }
}

void forget_group_comms(Thread& self, uint32_t copy) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < self.group_comm_count; ++i)
    if (self.group_comms[i].copy != copy) self.group_comms[kept++] = self.group_comms[i];
  self.group_comm_count = kept;
}

void report_group(const ThreadGroup& group) {
  if (group.calls == 0 || !attached()) return;
  orrery_event event{};
  event.time_ns = now_ns();
  event.type = ORRERY_EVENT_GROUP_END;
  event.group = {.group = group.number, .calls = group.calls};
  emit(event);
}

// Common course of ncclGroupEnd and ncclGroupSimulateEnd: both leave the group.
template <typename End>
ncclResult_t end_group(NcclCopy& copy, bool really, End end) {
  NcclCall call(copy);
  Thread& self = thread_state;
  ThreadGroup& group = self.groups[copy.number()];
  if (!call.outermost() || group.level == 0) return end();
  if (group.level > 1) {
    --group.level;
    return end();
  }
  if (really) note_starts(self, copy.number());
  const ncclResult_t result = end();
  group.level = 0;
  settle_group(copy, result);
  if (really) report_group(group);
  forget_group_comms(self, copy.number());
  return result;
}

}  // namespace

ncclResult_t NcclBody<kGroupStart>::run(NcclCopy& copy) {
  auto* function = copy.get<kGroupStart>();
  if (function == nullptr) return missing(kGroupStart);
  NcclCall call(copy);
  const ncclResult_t result = function();
  Thread& self = thread_state;
  ThreadGroup& group = self.groups[copy.number()];
  if (call.outermost() && succeeded(result) && ++group.level == 1) {
    group.number = ++self.last_group_number;
    group.calls = 0;
    forget_group_comms(self, copy.number());
  }
  return result;
}

ncclResult_t NcclBody<kGroupEnd>::run(NcclCopy& copy) {
  auto* function = copy.get<kGroupEnd>();
  if (function == nullptr) return missing(kGroupEnd);
  return end_group(copy, true, [&] { return function(); });
}

ncclResult_t NcclBody<kGroupSimulateEnd>::run(NcclCopy& copy, ncclSimInfo_t* info) {
  auto* function = copy.get<kGroupSimulateEnd>();
  if (function == nullptr) return missing(kGroupSimulateEnd);
  return end_group(copy, false, [&] { return function(info); });
}

// No message when it is missing: programs ask for the version before they load NCCL.
ncclResult_t NcclBody<kGetVersion>::run(NcclCopy& copy, int* version) {
  auto* function = copy.get<kGetVersion>();
  return function != nullptr ? function(version) : kNcclInvalidUsage;
}

const char* NcclBody<kGetErrorString>::run(NcclCopy& copy, ncclResult_t result) {
  auto* function = copy.get<kGetErrorString>();
  return function != nullptr ? function(result) : "no NCCL library is loaded";
}

const char* NcclBody<kGetLastError>::run(NcclCopy& copy, ncclComm_t comm) {
  auto* function = copy.get<kGetLastError>();
  return function != nullptr ? function(comm) : "no NCCL library with ncclGetLastError is loaded";
}

void NcclBody<kResetDebugInit>::run(NcclCopy& copy) {
  if (auto* function = copy.get<kResetDebugInit>()) function();
}

}  // namespace orrery::preload
