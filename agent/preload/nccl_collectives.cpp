// NCCL wrappers of collectives, point-to-point calls and the small functions. Collectives are the hot path: one clock
// reading, one table lookup, one ring push; with no agent a counter, and when off a forward.
#include "agent/preload/attach.h"
#include "agent/preload/nccl_layer.h"

namespace orrery::preload {
namespace {

struct Operation {
  orrery_collective_op op;
  size_t count;
  ncclDataType_t type;
  uint32_t peer = 0xffffffffu;
  ncclRedOp_t reduction = kNcclFirstCustomOp;
};

void join_group(Thread& self, ncclComm_t handle) {
  ++self.group_calls;
  for (uint32_t i = 0; i < self.group_comm_count; ++i)
    if (self.group_comms[i] == handle) return;
  if (self.group_comm_count < kMaxGroupComms) self.group_comms[self.group_comm_count++] = handle;
}

void note(const Operation& operation, ncclComm_t handle) {
  Thread& self = thread_state;
  if (self.group_level == 0)
    ++self.group_number;
  else
    join_group(self, handle);
  const uint64_t now = now_ns();
  Comm* comm = find_comm(handle);
  if (comm != nullptr) {
    if (comm->nranks == 0) [[unlikely]]
      complete(comm);
    note_collective_start(comm, now);
    orrery_event event;
    event.time_ns = now;
    event.type = ORRERY_EVENT_COLLECTIVE;
    event.collective.comm_id = comm->comm_id;
    event.collective.bytes = operation.count * nccl_type_bytes(operation.type);
    event.collective.op = operation.op;
    event.collective.peer = operation.peer;
    event.collective.group = self.group_number;
    event.collective.datatype = static_cast<uint8_t>(operation.type);
    event.collective.reduction = static_cast<uint8_t>(
        operation.reduction >= 0 && operation.reduction < kNcclFirstCustomOp ? operation.reduction : 255);
    event.collective.flags = 0;
    emit(event);
  }
  tick(now);
}

// Inline in every wrapper; without an agent it ends in a jump to NCCL.
template <typename Function, typename... Arguments>
__attribute__((always_inline)) inline ncclResult_t traced(RealNccl<Function>& real, const Operation& operation,
                                                          ncclComm_t comm, Arguments... arguments) {
  auto* function = real.get();
  if (function == nullptr) [[unlikely]]
    return missing(real.name());
  const uint32_t state = arm();
  if (state != kAttached) {
    if (state == kSeeking) tick_sometimes(thread_state.calls_to_tick);
    return function(arguments...);
  }
  NcclCall call;
  if (call.outermost()) note(operation, comm);
  return function(arguments...);
}

template <typename Function, typename... Arguments>
ncclResult_t forwarded(RealNccl<Function>& real, Arguments... arguments) {
  auto* function = real.get();
  if (function == nullptr) return missing(real.name());
  NcclCall call;
  return function(arguments...);
}

}  // namespace

ncclResult_t missing(const char* function) {
  static uint32_t said = 0;
  if (__atomic_exchange_n(&said, 1u, __ATOMIC_RELAXED) == 0)
    say_always("no NCCL or RCCL library that has this function is loaded, so it returns ncclInvalidUsage: ", function);
  return kNcclInvalidUsage;
}

}  // namespace orrery::preload

using namespace orrery::preload;

ORRERY_EXPORT ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclAllReduce)> real{"ncclAllReduce"};
  return traced(real, {.op = ORRERY_OP_ALL_REDUCE, .count = count, .type = type, .reduction = op}, comm, send, receive,
                count, type, op, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclReduceScatter)> real{"ncclReduceScatter"};
  return traced(real, {.op = ORRERY_OP_REDUCE_SCATTER, .count = count, .type = type, .reduction = op}, comm, send,
                receive, count, type, op, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                                         ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclAllGather)> real{"ncclAllGather"};
  return traced(real, {.op = ORRERY_OP_ALL_GATHER, .count = count, .type = type}, comm, send, receive, count, type,
                comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                                         ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclBroadcast)> real{"ncclBroadcast"};
  return traced(real, {.op = ORRERY_OP_BROADCAST, .count = count, .type = type, .peer = static_cast<uint32_t>(root)},
                comm, send, receive, count, type, root, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                     cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclBcast)> real{"ncclBcast"};
  return traced(real, {.op = ORRERY_OP_BROADCAST, .count = count, .type = type, .peer = static_cast<uint32_t>(root)},
                comm, buffer, count, type, root, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclReduce)> real{"ncclReduce"};
  return traced(
      real,
      {.op = ORRERY_OP_REDUCE, .count = count, .type = type, .peer = static_cast<uint32_t>(root), .reduction = op},
      comm, send, receive, count, type, op, root, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclSend)> real{"ncclSend"};
  return traced(real, {.op = ORRERY_OP_SEND, .count = count, .type = type, .peer = static_cast<uint32_t>(peer)}, comm,
                send, count, type, peer, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclRecv)> real{"ncclRecv"};
  return traced(real, {.op = ORRERY_OP_RECV, .count = count, .type = type, .peer = static_cast<uint32_t>(peer)}, comm,
                receive, count, type, peer, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclAlltoAll)> real{"ncclAlltoAll"};
  return traced(real, {.op = ORRERY_OP_ALL_TO_ALL, .count = count, .type = type}, comm, send, receive, count, type,
                comm, stream);
}

// RCCL's spelling.
ORRERY_EXPORT ncclResult_t ncclAllToAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclAllToAll)> real{"ncclAllToAll"};
  return traced(real, {.op = ORRERY_OP_ALL_TO_ALL, .count = count, .type = type}, comm, send, receive, count, type,
                comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclGather)> real{"ncclGather"};
  return traced(real, {.op = ORRERY_OP_GATHER, .count = count, .type = type, .peer = static_cast<uint32_t>(root)}, comm,
                send, receive, count, type, root, comm, stream);
}

ORRERY_EXPORT ncclResult_t ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                                       ncclComm_t comm, cudaStream_t stream) {
  static constinit RealNccl<decltype(ncclScatter)> real{"ncclScatter"};
  return traced(real, {.op = ORRERY_OP_SCATTER, .count = count, .type = type, .peer = static_cast<uint32_t>(root)},
                comm, send, receive, count, type, root, comm, stream);
}

// No message when it is missing: programs ask for the version before they load NCCL.
ORRERY_EXPORT ncclResult_t ncclGetVersion(int* version) {
  static constinit RealNccl<decltype(ncclGetVersion)> real{"ncclGetVersion"};
  auto* function = real.get();
  return function != nullptr ? function(version) : kNcclInvalidUsage;
}

ORRERY_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static constinit RealNccl<decltype(ncclGetUniqueId)> real{"ncclGetUniqueId"};
  return forwarded(real, id);
}

ORRERY_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  static constinit RealNccl<decltype(ncclGetErrorString)> real{"ncclGetErrorString"};
  auto* function = real.get();
  return function != nullptr ? function(result) : "no NCCL library is loaded";
}

ORRERY_EXPORT const char* ncclGetLastError(ncclComm_t comm) {
  static constinit RealNccl<decltype(ncclGetLastError)> real{"ncclGetLastError"};
  auto* function = real.get();
  return function != nullptr ? function(comm) : "no NCCL library with ncclGetLastError is loaded";
}

ORRERY_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  static constinit RealNccl<decltype(ncclCommCount)> real{"ncclCommCount"};
  return forwarded(real, comm, count);
}

ORRERY_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  static constinit RealNccl<decltype(ncclCommCuDevice)> real{"ncclCommCuDevice"};
  return forwarded(real, comm, device);
}

ORRERY_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  static constinit RealNccl<decltype(ncclCommUserRank)> real{"ncclCommUserRank"};
  return forwarded(real, comm, rank);
}

ORRERY_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  static constinit RealNccl<decltype(ncclCommGetAsyncError)> real{"ncclCommGetAsyncError"};
  return forwarded(real, comm, error);
}

ORRERY_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  static constinit RealNccl<decltype(ncclCommFinalize)> real{"ncclCommFinalize"};
  return forwarded(real, comm);
}

ORRERY_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  static constinit RealNccl<decltype(ncclCommRevoke)> real{"ncclCommRevoke"};
  return forwarded(real, comm, flags);
}

ORRERY_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, int residence,
                                                    ncclComm_t comm) {
  static constinit RealNccl<decltype(ncclRedOpCreatePreMulSum)> real{"ncclRedOpCreatePreMulSum"};
  return forwarded(real, op, scalar, type, residence, comm);
}

ORRERY_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  static constinit RealNccl<decltype(ncclRedOpDestroy)> real{"ncclRedOpDestroy"};
  return forwarded(real, op, comm);
}
