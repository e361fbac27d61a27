/* A preloaded library that loses the last element of every all-reduce: the benchmark must notice. */
#include <stddef.h>

#include "tools/lab/hostnccl/include/nccl.h"

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return pncclAllReduce(send, recv, count - 1, type, op, comm, stream);
}
