// The exported C functions: check arguments, then hand on. Every public name is weak and has a p-twin, as in NCCL, and
// NCCL's own calls from one public function to another (Bcast -> Broadcast, Send/Recv -> GroupStart/End, CommInitAll ->
// GetUniqueId, GroupStart/End) go through the public name, so that an interposer sees here what it sees with NCCL.
#include <array>
#include <cstring>
#include <string>

#include "tools/lab/hostnccl/diagnostics.h"
#include "tools/lab/hostnccl/group.h"
#include "tools/lab/hostnccl/stream_order.h"

namespace hn = orrery::hostnccl;

#define HOSTNCCL_EXPORT(result, name, ...)                                                     \
  extern "C" __attribute__((visibility("default"), alias(#name))) result p##name(__VA_ARGS__); \
  extern "C" __attribute__((visibility("default"), weak)) result name(__VA_ARGS__)

namespace {

hn::Communicator* communicator_of(ncclComm_t comm) {
  return reinterpret_cast<hn::Communicator*>(comm);
}
ncclComm_t handle_of(hn::Communicator* communicator) {
  return reinterpret_cast<ncclComm_t>(communicator);
}

ncclResult_t bad_argument(const char* function, const std::string& what) {
  return hn::refuse(hn::report(ncclInvalidArgument, std::string(function) + ": " + what));
}

// Any communicator that was made and not destroyed.
ncclResult_t check_alive(const char* function, ncclComm_t comm) {
  if (comm && communicator_of(comm)->is_alive()) return ncclSuccess;
  return bad_argument(function, comm ? "the communicator was destroyed or never made" : "the communicator is NULL");
}

ncclResult_t check_ready(const char* function, ncclComm_t comm) {
  if (const auto result = check_alive(function, comm); result != ncclSuccess) return result;
  const hn::Communicator& communicator = *communicator_of(comm);
  const ncclResult_t state = communicator.state();
  if (state == ncclInProgress) {
    return bad_argument(function, "the communicator is still being set up (poll ncclCommGetAsyncError)");
  }
  if (state != ncclSuccess) return hn::refuse(state);
  if (communicator.is_finalized()) {
    return hn::refuse(hn::report(ncclInvalidUsage, std::string(function) + ": the communicator is finalized"));
  }
  return ncclSuccess;
}

bool reduces(hn::OperationKind kind) {
  return kind == hn::OperationKind::kAllReduce || kind == hn::OperationKind::kReduce ||
         kind == hn::OperationKind::kReduceScatter;
}

ncclResult_t resolve_reduction(const char* function, const hn::Communicator& communicator, hn::Operation& operation) {
  if (operation.op >= ncclSum && operation.op < ncclNumOps) {
    operation.reduction = hn::make_reduction(operation.op, operation.type, communicator.nranks());
    return ncclSuccess;
  }
  const auto user = communicator.find_reduction(operation.op);
  if (!user) return bad_argument(function, "reduction " + std::to_string(operation.op) + " does not exist");
  if (user->reduction.type != operation.type) {
    return bad_argument(function, "the reduction was made for data type " + std::to_string(user->reduction.type) +
                                      ", the call has " + std::to_string(operation.type));
  }
  operation.reduction = user->reduction;
  operation.device_scalar = user->device_scalar;
  return ncclSuccess;
}

// Which of the two buffers this rank's call touches.
ncclResult_t check_buffers(const char* function, const hn::Communicator& communicator, const hn::Operation& operation) {
  if (operation.count == 0) return ncclSuccess;
  const bool is_root = operation.peer == communicator.rank();
  const auto kind = operation.kind;
  const bool needs_send = kind != hn::OperationKind::kRecv && (kind != hn::OperationKind::kBroadcast || is_root);
  const bool needs_recv = kind != hn::OperationKind::kSend && (kind != hn::OperationKind::kReduce || is_root);
  if (needs_send && !operation.send) return bad_argument(function, "the send buffer is NULL");
  if (needs_recv && !operation.recv) return bad_argument(function, "the receive buffer is NULL");
  return ncclSuccess;
}

ncclResult_t enqueue(const char* function, ncclComm_t comm, hn::Operation operation) {
  if (const auto result = check_ready(function, comm); result != ncclSuccess) return result;
  hn::Communicator& communicator = *communicator_of(comm);
  if (hn::element_bytes(operation.type) == 0) {
    return bad_argument(function, "data type " + std::to_string(operation.type) + " does not exist");
  }
  if (operation.peer < 0 || operation.peer >= communicator.nranks()) {
    return bad_argument(function, "rank " + std::to_string(operation.peer) + " is not one of the communicator's " +
                                      std::to_string(communicator.nranks()));
  }
  if (const auto result = check_buffers(function, communicator, operation); result != ncclSuccess) return result;
  if (reduces(operation.kind)) {
    if (const auto result = resolve_reduction(function, communicator, operation); result != ncclSuccess) return result;
  }
  if (hn::logs_collectives()) {
    hn::log_info(communicator.device(), std::string(function + 4) + ": count " + std::to_string(operation.count) +
                                            " datatype " + std::to_string(operation.type) + " op " +
                                            std::to_string(operation.op) + " root " + std::to_string(operation.peer));
  }
  return hn::add_operation(communicator, operation);
}

// Blocking unless the config says otherwise. The caller's struct may be older (shorter) or newer (longer) than ours.
ncclResult_t parse_config(const char* function, const ncclConfig_t* config, bool& blocking) {
  if (!config) return ncclSuccess;
  ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
  if (config->size < offsetof(ncclConfig_t, blocking) || config->magic != NCCL_CONFIG_MAGIC) {
    return bad_argument(function, "the ncclConfig_t was not initialised with NCCL_CONFIG_INITIALIZER");
  }
  std::memcpy(static_cast<void*>(&own), config, std::min(config->size, sizeof own));
  if (own.blocking == NCCL_CONFIG_UNDEF_INT) return ncclSuccess;
  if (own.blocking != 0 && own.blocking != 1) {
    return bad_argument(function, "config.blocking is " + std::to_string(own.blocking) + ", not 0 or 1");
  }
  blocking = own.blocking == 1;
  return ncclSuccess;
}

ncclResult_t init_rank(const char* function, ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank, int device,
                       const ncclConfig_t* config) {
  if (!comm) return bad_argument(function, "the communicator pointer is NULL");
  *comm = nullptr;
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return bad_argument(function, "rank " + std::to_string(rank) + " of " + std::to_string(nranks) + " is impossible");
  }
  bool blocking = true;
  if (const auto result = parse_config(function, config, blocking); result != ncclSuccess) return result;
  auto* communicator = new hn::Communicator(rank, nranks, device, blocking);
  *comm = handle_of(communicator);
  return hn::add_set_up(
      communicator, [communicator, id] { return communicator->connect(id); },
      [communicator, comm] {
        delete communicator;
        *comm = nullptr;
      });
}

}  // namespace

HOSTNCCL_EXPORT(ncclResult_t, ncclGetVersion, int* version) {
  if (!version) return bad_argument("ncclGetVersion", "the version pointer is NULL");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

HOSTNCCL_EXPORT(ncclResult_t, ncclGetUniqueId, ncclUniqueId* id) {
  if (!id) return bad_argument("ncclGetUniqueId", "the id pointer is NULL");
  const auto settings = hn::read_settings();
  if (!settings) return hn::report(settings.error());
  const auto made = hn::make_unique_id(*settings);
  if (!made) return hn::report(made.error());
  *id = *made;
  return ncclSuccess;
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                ncclConfig_t* config) {
  return init_rank("ncclCommInitRankConfig", comm, nranks, id, rank, 0, config);
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return init_rank("ncclCommInitRank", comm, nranks, id, rank, 0, nullptr);
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommInitAll, ncclComm_t* comms, int ndev, const int* devices) {
  if (!comms || ndev < 1) return bad_argument("ncclCommInitAll", "no communicators to make");
  ncclUniqueId id;
  if (const auto result = ncclGetUniqueId(&id); result != ncclSuccess) return result;
  if (const auto result = ncclGroupStart(); result != ncclSuccess) return result;
  for (int rank = 0; rank < ndev; ++rank) {
    (void)init_rank("ncclCommInitAll", &comms[rank], ndev, id, rank, devices ? devices[rank] : rank, nullptr);
  }
  return ncclGroupEnd();
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  if (const auto result = check_alive("ncclCommFinalize", comm); result != ncclSuccess) return result;
  if (communicator_of(comm)->is_finalized()) {
    return hn::report(ncclInvalidArgument, "ncclCommFinalize: the communicator is finalized already");
  }
  return communicator_of(comm)->finalize();
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  if (const auto result = check_alive("ncclCommDestroy", comm); result != ncclSuccess) return result;
  const ncclResult_t result = communicator_of(comm)->destroy();
  delete communicator_of(comm);
  return result;
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  if (const auto result = check_alive("ncclCommAbort", comm); result != ncclSuccess) return result;
  communicator_of(comm)->abort();
  delete communicator_of(comm);
  return ncclSuccess;
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* child,
                ncclConfig_t* config) {
  if (!child) return bad_argument("ncclCommSplit", "the child pointer is NULL");
  *child = nullptr;
  if (const auto result = check_ready("ncclCommSplit", comm); result != ncclSuccess) return result;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return bad_argument("ncclCommSplit", "color " + std::to_string(color) + " is negative");
  }
  hn::Communicator* parent = communicator_of(comm);
  bool blocking = parent->is_blocking();
  if (const auto result = parse_config("ncclCommSplit", config, blocking); result != ncclSuccess) return result;
  hn::Communicator* made = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) {
    made = new hn::Communicator(0, 1, parent->device(), blocking);
    *child = handle_of(made);
  }
  return hn::add_set_up(
      made, [parent, color, key, made] { return hn::Communicator::split(*parent, color, key, made); },
      [made, child] {
        delete made;
        *child = nullptr;
      });
}

HOSTNCCL_EXPORT(const char*, ncclGetErrorString, ncclResult_t result) {
  return hn::describe(result);
}

HOSTNCCL_EXPORT(const char*, ncclGetLastError, ncclComm_t comm) {
  // The text stays valid until this thread's next call.
  static thread_local std::string text;
  text.clear();
  if (comm && communicator_of(comm)->is_alive()) text = communicator_of(comm)->failure_text();
  if (text.empty()) text = hn::last_error();
  return text.c_str();
}

HOSTNCCL_EXPORT(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* error) {
  if (const auto result = check_alive("ncclCommGetAsyncError", comm); result != ncclSuccess) return result;
  if (!error) return bad_argument("ncclCommGetAsyncError", "the result pointer is NULL");
  *error = communicator_of(comm)->state();
  return ncclSuccess;
}

namespace {

ncclResult_t query(const char* function, ncclComm_t comm, int* value, int (hn::Communicator::*read)() const) {
  if (!value) return bad_argument(function, "the result pointer is NULL");
  if (const auto result = check_alive(function, comm); result != ncclSuccess) return result;
  if (const auto state = communicator_of(comm)->state(); state == ncclInProgress) {
    return bad_argument(function, "the communicator is still being set up (poll ncclCommGetAsyncError)");
  }
  *value = (communicator_of(comm)->*read)();
  return ncclSuccess;
}

}  // namespace

HOSTNCCL_EXPORT(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  return query("ncclCommCount", comm, count, &hn::Communicator::nranks);
}
HOSTNCCL_EXPORT(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return query("ncclCommCuDevice", comm, device, &hn::Communicator::device);
}
HOSTNCCL_EXPORT(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return query("ncclCommUserRank", comm, rank, &hn::Communicator::rank);
}

HOSTNCCL_EXPORT(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                ncclScalarResidence_t residence, ncclComm_t comm) {
  if (const auto result = check_ready("ncclRedOpCreatePreMulSum", comm); result != ncclSuccess) return result;
  if (!op || !scalar) return bad_argument("ncclRedOpCreatePreMulSum", "the operation or scalar pointer is NULL");
  if (hn::element_bytes(type) == 0) {
    return bad_argument("ncclRedOpCreatePreMulSum", "data type " + std::to_string(type) + " does not exist");
  }
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
    return bad_argument("ncclRedOpCreatePreMulSum", "unknown scalar residence");
  }
  const void* later = residence == ncclScalarDevice ? scalar : nullptr;
  *op = communicator_of(comm)->add_reduction(hn::make_premultiplied_sum(type, scalar), later);
  return ncclSuccess;
}

HOSTNCCL_EXPORT(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  if (const auto result = check_alive("ncclRedOpDestroy", comm); result != ncclSuccess) return result;
  if (communicator_of(comm)->remove_reduction(op)) return ncclSuccess;
  return bad_argument("ncclRedOpDestroy", "reduction " + std::to_string(op) + " is not one made by the user");
}

using Kind = hn::OperationKind;

HOSTNCCL_EXPORT(ncclResult_t, ncclAllReduce, const void* send, void* recv, size_t count, ncclDataType_t type,
                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(
      "ncclAllReduce", comm,
      {.kind = Kind::kAllReduce, .send = send, .recv = recv, .count = count, .type = type, .op = op, .stream = stream});
}

HOSTNCCL_EXPORT(ncclResult_t, ncclReduceScatter, const void* send, void* recv, size_t recvcount, ncclDataType_t type,
                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduceScatter", comm,
                 {.kind = Kind::kReduceScatter,
                  .send = send,
                  .recv = recv,
                  .count = recvcount,
                  .type = type,
                  .op = op,
                  .stream = stream});
}

HOSTNCCL_EXPORT(ncclResult_t, ncclAllGather, const void* send, void* recv, size_t sendcount, ncclDataType_t type,
                ncclComm_t comm, cudaStream_t stream) {
  return enqueue(
      "ncclAllGather", comm,
      {.kind = Kind::kAllGather, .send = send, .recv = recv, .count = sendcount, .type = type, .stream = stream});
}

HOSTNCCL_EXPORT(ncclResult_t, ncclReduce, const void* send, void* recv, size_t count, ncclDataType_t type,
                ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduce", comm,
                 {.kind = Kind::kReduce,
                  .send = send,
                  .recv = recv,
                  .count = count,
                  .type = type,
                  .op = op,
                  .peer = root,
                  .stream = stream});
}

HOSTNCCL_EXPORT(ncclResult_t, ncclBroadcast, const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclBroadcast", comm,
                 {.kind = Kind::kBroadcast,
                  .send = send,
                  .recv = recv,
                  .count = count,
                  .type = type,
                  .peer = root,
                  .stream = stream});
}

HOSTNCCL_EXPORT(ncclResult_t, ncclBcast, void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

HOSTNCCL_EXPORT(ncclResult_t, ncclGroupStart) {
  hn::group_start();
  return ncclSuccess;
}

HOSTNCCL_EXPORT(ncclResult_t, ncclGroupEnd) {
  return hn::group_end();
}

HOSTNCCL_EXPORT(ncclResult_t, ncclSend, const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                cudaStream_t stream) {
  if (const auto result = ncclGroupStart(); result != ncclSuccess) return result;
  const ncclResult_t added =
      enqueue("ncclSend", comm,
              {.kind = Kind::kSend, .send = send, .count = count, .type = type, .peer = peer, .stream = stream});
  const ncclResult_t ended = ncclGroupEnd();
  return added != ncclSuccess ? added : ended;
}

HOSTNCCL_EXPORT(ncclResult_t, ncclRecv, void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                cudaStream_t stream) {
  if (const auto result = ncclGroupStart(); result != ncclSuccess) return result;
  const ncclResult_t added =
      enqueue("ncclRecv", comm,
              {.kind = Kind::kRecv, .recv = recv, .count = count, .type = type, .peer = peer, .stream = stream});
  const ncclResult_t ended = ncclGroupEnd();
  return added != ncclSuccess ? added : ended;
}

extern "C" __attribute__((visibility("default"))) ncclResult_t hostncclStreamSynchronize(cudaStream_t stream) {
  return hn::StreamOrder::instance().synchronize(stream);
}
