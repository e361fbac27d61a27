// The NCCL of a version as a program sees it; see nccl_api.inc. Independent of the library's own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclInProgress = 7
};
enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt64 = 4,
  ncclHalf = 6,
  ncclFloat = 7,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10
};
enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1, ncclMax = 2 };
enum ncclScalarResidence_t : int { ncclScalarHostImmediate = 1 };
enum ncclCommMemStat_t : int { ncclStatGpuMemTotal = 3 };
using ncclComm_t = struct FakeComm*;
using ncclWindow_t = struct FakeWindow*;
using cudaStream_t = struct FakeStream*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclSimInfo_t;
struct ncclWaitSignalDesc_t {
  int count, peer, signal, context;
};
// The start of every version's; the real one goes on, see fields().
struct ncclConfig_t {
  size_t size;
  unsigned magic, version;
  int blocking;
};

#define PLAIN(name, parameters, names, arguments) ncclResult_t name parameters;
#define SPECIAL(result, name, parameters, arguments) result name parameters;
#include "tests/preload/nccl/nccl_api.inc"

// The fake's own, beside NCCL's.
int fake_nccl_group_level();                      // of the calling thread
void fake_nccl_answer_with(ncclResult_t result);  // from now on, whatever is called
}
