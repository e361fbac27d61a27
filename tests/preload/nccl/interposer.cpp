// Another library that lays itself over a few of NCCL's functions, as tools for tracing do.
#include <dlfcn.h>

#include <cstdio>

#include "tests/preload/nccl/nccl_api.h"

#define INTERPOSED(name, parameters, arguments)                                          \
  extern "C" __attribute__((visibility("default"))) ncclResult_t name parameters {       \
    static const auto real = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)); \
    std::printf("interposed " #name "\n");                                               \
    std::fflush(stdout);                                                                 \
    return real arguments;                                                               \
  }

INTERPOSED(ncclAllReduce,
           (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream),
           (send, receive, count, type, op, comm, stream))
INTERPOSED(ncclBroadcast,
           (const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream),
           (send, receive, count, type, root, comm, stream))
INTERPOSED(ncclCommDestroy, (ncclComm_t comm), (comm))
