#include "tests/preload/nccl/framework.h"

namespace {

volatile int calls = 0;  // what follows a call, so that it is none by jump

template <typename Result>
Result after(Result result) {
  calls = calls + 1;
  return result;
}

ncclResult_t get_version(int* version) {
  return after(ncclGetVersion(version));
}
ncclResult_t init(ncclComm_t* made, int nranks, ncclUniqueId id, int rank) {
  return after(ncclCommInitRank(made, nranks, id, rank));
}
ncclResult_t start() {
  return after(ncclGroupStart());
}
ncclResult_t end() {
  return after(ncclGroupEnd());
}
ncclResult_t end_by_jump() {
  return ncclGroupEnd();
}
ncclResult_t send(const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  return after(ncclSend(buffer, count, type, peer, comm, stream));
}
ncclResult_t all_reduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                        cudaStream_t stream) {
  return after(ncclAllReduce(from, to, count, type, op, comm, stream));
}
ncclResult_t broadcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return after(ncclBcast(buffer, count, type, root, comm, stream));
}
ncclResult_t destroy(ncclComm_t comm) {
  return after(ncclCommDestroy(comm));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Framework* framework() {
  static constexpr Framework kFramework{get_version, init,       start,     end,    end_by_jump,
                                        send,        all_reduce, broadcast, destroy};
  return &kFramework;
}
