// What the NCCL wrappers share. A call is the application's own only at depth 0: NCCL calls some of its public
// functions itself.
#pragma once

#include "agent/preload/attach.h"
#include "agent/preload/comm_table.h"
#include "agent/preload/nccl_abi.h"
#include "agent/preload/nccl_copies.h"
#include "agent/preload/nccl_functions.h"
#include "agent/preload/process.h"
#include "common/abi/event_abi.h"

namespace orrery::preload {

static_assert(kMaxNcclCopies == kMaxGroupsOfThread);

class NcclCall {
 public:
  explicit NcclCall(const NcclCopy& copy) : outermost_(thread_state.depth++ == 0) {
    if (outermost_) thread_state.copy = copy.number();
  }
  ~NcclCall() { --thread_state.depth; }
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

inline bool succeeded(ncclResult_t result) {
  return result == kNcclSuccess || result == kNcclInProgress;
}

// The answer to a call of what its copy of NCCL lacks, or when none is loaded; says so once.
ncclResult_t missing(NcclFunction function);

// Bodies of the functions with rows OWN in nccl_functions.inc. `copy` is the one the call is for; it may lack the
// function.
template <NcclFunction kFunction>
struct NcclBody;
#define NCCL_LIST(...) __VA_OPT__(, ) __VA_ARGS__
#define COLLECTIVE(name, parameters, arguments, ...)
#define FORWARD(name, communicator, parameters, arguments)
#define OWN(result, name, communicator, parameters, arguments) \
  template <>                                                  \
  struct NcclBody<k##name> {                                   \
    static result run(NcclCopy& copy NCCL_LIST parameters);    \
  };
#include "agent/preload/nccl_functions.inc"
#undef NCCL_LIST

// What a collective or point-to-point call names.
struct Operation {
  orrery_collective_op op;
  size_t count = 0;
  const size_t* counts = nullptr;  // one per rank; then `count` is their sum
  ncclDataType_t type;
  int peer = -1;
  ncclRedOp_t reduction = kNcclFirstCustomOp;
};
// Precondition: attached, outermost call.
void note_collective(const Operation& operation, ncclComm_t handle, NcclCopy& copy);

// Asks NCCL for the rank and size it would not tell before, and announces the communicator.
void complete(Comm* comm);

// What a group's end means for the communicators that were made in it.
void settle_group(NcclCopy& copy, ncclResult_t result);

}  // namespace orrery::preload
