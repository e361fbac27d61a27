// A fake libnccl.so.2 that moves nothing: it checks and counts calls, and makes the calls to its own public functions
// that real NCCL makes (Bcast -> Broadcast, Send/Recv -> GroupStart/End, CommInitAll -> GetUniqueId and groups),
// through the PLT, as NCCL does.
#include <cstdlib>
#include <cstring>

using ncclResult_t = int;
using ncclDataType_t = int;
using ncclRedOp_t = int;
using cudaStream_t = void*;
struct ncclUniqueId {
  char internal[128];
};
struct FakeComm {
  int rank, nranks;
};
using ncclComm_t = FakeComm*;

namespace {
long calls = 0;
int group_level = 0;
constexpr ncclResult_t kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kInProgress = 7;

ncclResult_t collective(ncclComm_t comm) {
  ++calls;
  return comm == nullptr ? kInvalidArgument : kSuccess;
}

ncclResult_t make(ncclComm_t* comm, int rank, int nranks) {
  ++calls;
  if (comm == nullptr || rank < 0 || rank >= nranks) return kInvalidArgument;
  *comm = new FakeComm{rank, nranks};
  return kSuccess;
}
}  // namespace

#define FAKE_API extern "C" __attribute__((visibility("default"), weak))

// For tests only; NCCL has no such function.
extern "C" __attribute__((visibility("default"))) long fake_nccl_calls() {
  return calls;
}
extern "C" __attribute__((visibility("default"))) int fake_nccl_group_level() {
  return group_level;
}

FAKE_API ncclResult_t ncclGetVersion(int* version) {
  *version = 21806;
  return kSuccess;
}
FAKE_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  ++calls;
  for (size_t i = 0; i < sizeof(id->internal); ++i) id->internal[i] = static_cast<char>(i * 7 + 1);
  return kSuccess;
}
FAKE_API ncclResult_t ncclGroupStart() {
  ++group_level;
  return kSuccess;
}
FAKE_API ncclResult_t ncclGroupEnd() {
  return --group_level < 0 ? kInvalidUsage : kSuccess;
}
FAKE_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return id.internal[127] == 0 ? kInvalidArgument : make(comm, rank, nranks);
}
// A config makes the communicator non-blocking.
FAKE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, void* config) {
  const ncclResult_t result = ncclCommInitRank(comm, nranks, id, rank);
  return result == kSuccess && config != nullptr ? kInProgress : result;
}
FAKE_API ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int*) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclGroupStart();
  for (int i = 0; i < devices; ++i) ncclCommInitRank(&comms[i], devices, id, i);
  return ncclGroupEnd();
}
FAKE_API ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int, ncclComm_t* child, void*) {
  if (colour == -1) {
    *child = nullptr;
    return kSuccess;
  }
  return make(child, comm->rank / 2, comm->nranks / 2);
}
FAKE_API ncclResult_t ncclCommFinalize(ncclComm_t) {
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return ncclCommDestroy(comm);
}
FAKE_API ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->nranks;
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommCuDevice(const ncclComm_t, int* device) {
  *device = 0;
  return kSuccess;
}
FAKE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = kSuccess;
  return kSuccess;
}
FAKE_API const char* ncclGetErrorString(ncclResult_t) {
  return "fake";
}
FAKE_API const char* ncclGetLastError(ncclComm_t) {
  return "fake: nothing went wrong";
}
FAKE_API ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                                    cudaStream_t) {
  return collective(comm);
}
FAKE_API ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                                        cudaStream_t) {
  return collective(comm);
}
FAKE_API ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t comm, cudaStream_t) {
  return collective(comm);
}
FAKE_API ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  return collective(comm);
}
FAKE_API ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
FAKE_API ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t comm,
                                 cudaStream_t) {
  return collective(comm);
}
FAKE_API ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  ncclGroupStart();
  const ncclResult_t result = collective(comm);
  ncclGroupEnd();
  return result;
}
FAKE_API ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  ncclGroupStart();
  const ncclResult_t result = collective(comm);
  ncclGroupEnd();
  return result;
}
FAKE_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void*, ncclDataType_t, int, ncclComm_t) {
  *op = 5;
  return kSuccess;
}
FAKE_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) {
  return kSuccess;
}
