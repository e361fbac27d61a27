// The NCCL functions the test programs call, as an application sees them.
#pragma once

#include <cstddef>

extern "C" {
struct ncclUniqueId {
  char internal[128];
};
using ncclComm_t = void*;
int ncclGetVersion(int*);
int ncclGetUniqueId(ncclUniqueId*);
int ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int);
int ncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, void*);
int ncclCommGetAsyncError(ncclComm_t, int*);
int ncclCommInitAll(ncclComm_t*, int, const int*);
int ncclCommSplit(ncclComm_t, int, int, ncclComm_t*, void*);
int ncclCommDestroy(ncclComm_t);
int ncclCommAbort(ncclComm_t);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllReduce(const void*, void*, size_t, int, int, ncclComm_t, void*);
int ncclAllGather(const void*, void*, size_t, int, ncclComm_t, void*);
int ncclReduceScatter(const void*, void*, size_t, int, int, ncclComm_t, void*);
int ncclBcast(void*, size_t, int, int, ncclComm_t, void*);
int ncclReduce(const void*, void*, size_t, int, int, int, ncclComm_t, void*);
int ncclSend(const void*, size_t, int, int, ncclComm_t, void*);
int ncclRecv(void*, size_t, int, int, ncclComm_t, void*);
long fake_nccl_calls();
int fake_nccl_group_level();
}
