// The part of NCCL's host ABI that the wrappers need, unchanged from NCCL 2.3 to 2.30 (and in RCCL). Own declarations:
// no NCCL header is used, because one library serves every version.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace orrery::preload {

using ncclResult_t = int;
inline constexpr ncclResult_t kNcclSuccess = 0;
inline constexpr ncclResult_t kNcclInvalidUsage = 5;
inline constexpr ncclResult_t kNcclInProgress = 7;  // a non-blocking communicator's success

using ncclComm_t = void*;
using cudaStream_t = void*;
using ncclDataType_t = int;
using ncclRedOp_t = int;

// Passed by value, on the stack: the wrapper must have this very type.
struct ncclUniqueId {
  char internal[128];
};
static_assert(sizeof(ncclUniqueId) == 128);

// Only handed through: their layouts grow from version to version.
struct ncclConfig_t;
struct ncclSimInfo_t;
struct ncclWaitSignalDesc_t;
using ncclWindow_t = void*;

inline constexpr int kNcclFirstCustomOp = 5;  // sum, prod, max, min, avg are below

inline size_t nccl_type_bytes(ncclDataType_t type) {
  constexpr unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < static_cast<int>(sizeof(bytes)) ? bytes[type] : 0;
}

}  // namespace orrery::preload
