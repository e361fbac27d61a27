// NCCL's host ABI as of 2.18, for programs built against hostnccl and for hostnccl itself. Names, values and layouts
// are those any libnccl.so.2 of that release has; a stream is an opaque handle because there is no CUDA here (see
// docs/reference/hostnccl.md).
#ifndef ORRERY_HOSTNCCL_NCCL_H_
#define ORRERY_HOSTNCCL_NCCL_H_

#include <limits.h>
#include <stddef.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 18
#define NCCL_PATCH 6
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 21806
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st* cudaStream_t;
typedef struct ncclComm* ncclComm_t;

#define NCCL_COMM_NULL NULL
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_CONFIG_MAGIC 0xcafebeefu

typedef struct ncclConfig_v21700 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                       \
  {                                                                                                                   \
    sizeof(ncclConfig_t), NCCL_CONFIG_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR,                   \
        NCCL_CONFIG_UNDEF_INT                                                                                         \
  }

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* handles of ncclRedOpCreatePreMulSum start here */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclNumTypes = 10
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define HOSTNCCL_DECLARE(result, name, ...) \
  result name(__VA_ARGS__);                 \
  result p##name(__VA_ARGS__)

HOSTNCCL_DECLARE(ncclResult_t, ncclGetVersion, int* version);
HOSTNCCL_DECLARE(ncclResult_t, ncclGetUniqueId, ncclUniqueId* id);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                 ncclConfig_t* config);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommInitAll, ncclComm_t* comms, int ndev, const int* devices);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommFinalize, ncclComm_t comm);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommDestroy, ncclComm_t comm);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommAbort, ncclComm_t comm);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* child,
                 ncclConfig_t* config);
HOSTNCCL_DECLARE(const char*, ncclGetErrorString, ncclResult_t result);
HOSTNCCL_DECLARE(const char*, ncclGetLastError, ncclComm_t comm);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* error);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device);
HOSTNCCL_DECLARE(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank);
HOSTNCCL_DECLARE(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                 ncclScalarResidence_t residence, ncclComm_t comm);
HOSTNCCL_DECLARE(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm);
HOSTNCCL_DECLARE(ncclResult_t, ncclReduce, const void* send, void* recv, size_t count, ncclDataType_t type,
                 ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclBcast, void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                 cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclBroadcast, const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                 ncclComm_t comm, cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclAllReduce, const void* send, void* recv, size_t count, ncclDataType_t type,
                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclReduceScatter, const void* send, void* recv, size_t recvcount, ncclDataType_t type,
                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclAllGather, const void* send, void* recv, size_t sendcount, ncclDataType_t type,
                 ncclComm_t comm, cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclSend, const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                 cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclRecv, void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                 cudaStream_t stream);
HOSTNCCL_DECLARE(ncclResult_t, ncclGroupStart, void);
HOSTNCCL_DECLARE(ncclResult_t, ncclGroupEnd, void);

/* Extension. Waits until every operation enqueued so far on `stream` in this process has completed on this rank, and
   returns the first error among those completed since the last call for that stream. Host memory has no
   cudaStreamSynchronize. */
ncclResult_t hostncclStreamSynchronize(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ORRERY_HOSTNCCL_NCCL_H_ */
