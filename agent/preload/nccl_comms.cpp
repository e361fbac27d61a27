// NCCL wrappers that make, split and end communicators, and those that open and close groups. Never hot.
#include "agent/preload/nccl_layer.h"

#include <string.h>

#include "agent/preload/attach.h"
#include "common/abi/comm_id_abi.h"

namespace orrery::preload {
namespace {

constinit RealNccl<ncclResult_t(ncclComm_t, int*)> real_count{"ncclCommCount"};
constinit RealNccl<ncclResult_t(ncclComm_t, int*)> real_user_rank{"ncclCommUserRank"};

constexpr uint32_t kShrinkColour = 0xfffffffeu;
constexpr int kMaxDevices = 1024;

bool succeeded(ncclResult_t result) {
  return result == kNcclSuccess || result == kNcclInProgress;
}

// Tells the agent before NCCL does anything. Returns the attachment that was told, 0 for none.
uint32_t announce(const PendingComm& made) {
  if (made.nranks == 0 || !attached()) return 0;
  const uint32_t told = generation();
  emit_comm_init(made.comm_id, made.parent_id, made.rank, made.nranks);
  ring_doorbell();
  return told;
}

void retract(const PendingComm& made) {
  if (made.announced != 0 && attached() && made.announced == generation())
    emit_comm_gone(made.comm_id, made.parent_id, made.rank, made.nranks);
}

bool ask_nccl(ncclComm_t handle, PendingComm& made) {
  auto* count = real_count.get();
  auto* user_rank = real_user_rank.get();
  int nranks = 0, rank = 0;
  if (count == nullptr || user_rank == nullptr || count(handle, &nranks) != kNcclSuccess ||
      user_rank(handle, &rank) != kNcclSuccess || nranks < 1)
    return false;
  made.nranks = static_cast<uint32_t>(nranks);
  made.rank = static_cast<uint32_t>(rank);
  return true;
}

void record(ncclComm_t handle, PendingComm made) {
  Comm known;
  retire_comm(handle, &known);  // a communicator that ended in a way we did not see
  if (made.nranks == 0) ask_nccl(handle, made);
  Comm* comm = add_comm(handle, {.comm_id = made.comm_id,
                                 .parent_id = made.parent_id,
                                 .rank = made.rank,
                                 .nranks = made.nranks,
                                 .announced = made.announced});
  if (comm == nullptr || comm->nranks == 0 || !attached()) return;
  if (made.announced == generation())
    emit_comm_ready(*comm);
  else if (announce_all_comms())
    ring_doorbell();
}

// Inside a group NCCL may fill the handle only when the group ends.
void settle(ncclResult_t result, PendingComm& made, void* before) {
  Thread& self = thread_state;
  if (!succeeded(result)) return retract(made);
  if (made.handle == nullptr) return;
  if (self.group_level == 0) {
    if (*made.handle != nullptr) record(*made.handle, made);
    return;
  }
  if (*made.handle != nullptr && *made.handle != before) {
    record(*made.handle, made);
    made.handle = nullptr;  // known; the program need not keep it until the group ends
  }
  if (self.pending_count < kMaxPending) self.pending[self.pending_count++] = made;
}

void settle_group(ncclResult_t result) {
  Thread& self = thread_state;
  for (uint32_t i = 0; i < self.pending_count; ++i) {
    PendingComm& made = self.pending[i];
    if (!succeeded(result))
      retract(made);
    else if (made.handle != nullptr && *made.handle != nullptr && find_comm(*made.handle) == nullptr)
      record(*made.handle, made);
  }
  self.pending_count = 0;
}

// Common course of every function that makes one communicator.
template <typename Make>
ncclResult_t make_comm(PendingComm made, Make make) {
  NcclCall call;
  if (!call.outermost() || !become_interested()) return make();
  attach_for_communicator();
  made.announced = announce(made);
  void* before = made.handle != nullptr && thread_state.group_level > 0 ? *made.handle : nullptr;
  const ncclResult_t result = make();
  settle(result, made, before);
  return result;
}

template <typename Derive>
ncclResult_t make_child(ncclComm_t parent_handle, uint32_t colour, ncclComm_t* handle, Derive derive) {
  PendingComm made{};
  Comm* parent = find_comm(parent_handle);
  if (parent == nullptr || handle == nullptr) {
    NcclCall call;
    return derive();
  }
  made.handle = handle;
  made.parent_id = parent->comm_id;
  made.comm_id =
      orrery_child_comm_id(parent->comm_id, __atomic_fetch_add(&parent->children, 1u, __ATOMIC_RELAXED), colour);
  return make_comm(made, derive);
}

uint64_t id_of(const ncclUniqueId* ids, size_t count) {
  return orrery_comm_id(reinterpret_cast<const orrery_u8*>(ids), count * sizeof(ncclUniqueId));
}

// All ranks of ncclCommInitAll are here, so any number that no other process has will do.
uint64_t local_id() {
  static uint32_t calls = 0;
  const uint64_t words[] = {now_ns(), reinterpret_cast<uint64_t>(&calls), reinterpret_cast<uint64_t>(&thread_state),
                            __atomic_add_fetch(&calls, 1u, __ATOMIC_RELAXED)};
  return orrery_comm_id(reinterpret_cast<const orrery_u8*>(words), sizeof(words));
}

void end_comm(ncclComm_t handle) {
  Comm comm;
  if (thread_state.depth != 1 || !retire_comm(handle, &comm)) return;
  if (comm.announced != 0 && attached()) emit_comm_gone(comm.comm_id, comm.parent_id, comm.rank, comm.nranks);
}

void close_group() {
  Thread& self = thread_state;
  const uint64_t now = now_ns();
  for (uint32_t i = 0; i < self.group_comm_count; ++i)
    if (Comm* comm = find_comm(self.group_comms[i])) note_collective_start(comm, now);
}

void report_group() {
  Thread& self = thread_state;
  if (self.group_calls == 0 || !attached()) return;
  orrery_event event{};
  event.time_ns = now_ns();
  event.type = ORRERY_EVENT_GROUP_END;
  event.group = {.group = self.group_number, .calls = self.group_calls};
  emit(event);
}

// Common course of ncclGroupEnd and ncclGroupSimulateEnd: both leave the group.
template <typename End>
ncclResult_t end_group(bool really, End end) {
  NcclCall call;
  Thread& self = thread_state;
  if (!call.outermost() || self.group_level == 0) return end();
  if (self.group_level > 1) {
    --self.group_level;
    return end();
  }
  if (really) close_group();
  const ncclResult_t result = end();
  self.group_level = 0;
  settle_group(result);
  if (really) report_group();
  self.group_calls = self.group_comm_count = 0;
  return result;
}

}  // namespace

// A communicator that was still being made when its handle was first seen.
void complete(Comm* comm) {
  PendingComm made{};
  if (!ask_nccl(comm->handle, made)) return;
  comm->rank = made.rank;
  __atomic_store_n(&comm->nranks, made.nranks, __ATOMIC_RELEASE);
  if (attached() && announce_all_comms()) ring_doorbell();
}

}  // namespace orrery::preload

using namespace orrery::preload;

ORRERY_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  static constinit RealNccl<decltype(ncclCommInitRank)> real{"ncclCommInitRank"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  return make_comm({.handle = comm,
                    .comm_id = id_of(&id, 1),
                    .rank = static_cast<uint32_t>(rank),
                    .nranks = static_cast<uint32_t>(nranks)},
                   [&] { return function(comm, nranks, id, rank); });
}

ORRERY_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                                  ncclConfig_t* config) {
  static constinit RealNccl<decltype(ncclCommInitRankConfig)> real{"ncclCommInitRankConfig"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  return make_comm({.handle = comm,
                    .comm_id = id_of(&id, 1),
                    .rank = static_cast<uint32_t>(rank),
                    .nranks = static_cast<uint32_t>(nranks)},
                   [&] { return function(comm, nranks, id, rank, config); });
}

ORRERY_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int id_count,
                                                    ncclUniqueId* ids, ncclConfig_t* config) {
  static constinit RealNccl<decltype(ncclCommInitRankScalable)> real{"ncclCommInitRankScalable"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  const bool readable = ids != nullptr && id_count > 0 && id_count <= nranks;
  return make_comm({.handle = comm,
                    .comm_id = readable ? id_of(ids, static_cast<size_t>(id_count)) : 1,
                    .rank = static_cast<uint32_t>(rank),
                    .nranks = readable ? static_cast<uint32_t>(nranks) : 0},
                   [&] { return function(comm, nranks, rank, id_count, ids, config); });
}

ORRERY_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* device_list) {
  static constinit RealNccl<decltype(ncclCommInitAll)> real{"ncclCommInitAll"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  NcclCall call;
  const bool plausible = comms != nullptr && devices >= 1 && devices <= kMaxDevices;  // else NCCL says no
  if (!call.outermost() || !plausible || !become_interested()) return function(comms, devices, device_list);
  attach_for_communicator();
  PendingComm made{.comm_id = local_id(), .nranks = static_cast<uint32_t>(devices)};
  const uint32_t told = attached() ? generation() : 0;
  for (int rank = 0; rank < devices && told != 0; ++rank) {
    made.rank = static_cast<uint32_t>(rank);
    made.announced = announce(made);
  }
  const ncclResult_t result = function(comms, devices, device_list);
  made.announced = told;
  for (int rank = 0; rank < devices; ++rank) {
    made.rank = static_cast<uint32_t>(rank);
    if (!succeeded(result))
      retract(made);
    else if (comms[rank] != nullptr)
      record(comms[rank], made);
  }
  return result;
}

ORRERY_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  static constinit RealNccl<decltype(ncclCommSplit)> real{"ncclCommSplit"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  return make_child(comm, static_cast<uint32_t>(color), child,
                    [&] { return function(comm, color, key, child, config); });
}

ORRERY_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* exclude, int exclude_count, ncclComm_t* child,
                                          ncclConfig_t* config, int flags) {
  static constinit RealNccl<decltype(ncclCommShrink)> real{"ncclCommShrink"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  return make_child(comm, kShrinkColour, child,
                    [&] { return function(comm, exclude, exclude_count, child, config, flags); });
}

ORRERY_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  static constinit RealNccl<decltype(ncclCommDestroy)> real{"ncclCommDestroy"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  NcclCall call;
  end_comm(comm);
  return function(comm);
}

ORRERY_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  static constinit RealNccl<decltype(ncclCommAbort)> real{"ncclCommAbort"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  NcclCall call;
  end_comm(comm);
  return function(comm);
}

ORRERY_EXPORT ncclResult_t ncclGroupStart() {
  static constinit RealNccl<decltype(ncclGroupStart)> real{"ncclGroupStart"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  NcclCall call;
  const ncclResult_t result = function();
  Thread& self = thread_state;
  if (call.outermost() && succeeded(result) && ++self.group_level == 1) {
    ++self.group_number;
    self.group_calls = self.group_comm_count = self.pending_count = 0;
  }
  return result;
}

ORRERY_EXPORT ncclResult_t ncclGroupEnd() {
  static constinit RealNccl<decltype(ncclGroupEnd)> real{"ncclGroupEnd"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  return end_group(true, [&] { return function(); });
}

ORRERY_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  static constinit RealNccl<decltype(ncclGroupSimulateEnd)> real{"ncclGroupSimulateEnd"};
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  return end_group(false, [&] { return function(info); });
}
