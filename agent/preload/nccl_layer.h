// What the NCCL wrappers share. A call is the application's own only at depth 0: NCCL calls some of its public
// functions itself.
#pragma once

#include "agent/preload/comm_table.h"
#include "agent/preload/forward.h"
#include "agent/preload/nccl_abi.h"
#include "agent/preload/process.h"

namespace orrery::preload {

class NcclCall {
 public:
  NcclCall() : outermost_(thread_state.depth++ == 0) {}
  ~NcclCall() { --thread_state.depth; }
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

// The answer when the program found our wrapper but no NCCL is loaded; says so once.
ncclResult_t missing(const char* function);

// Asks NCCL for the rank and size it would not tell before, and announces the communicator.
void complete(Comm* comm);

}  // namespace orrery::preload
