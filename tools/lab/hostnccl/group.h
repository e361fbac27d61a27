// ncclGroupStart/End: per thread, what was called since the outermost start; it takes effect at the outermost end.
#pragma once

#include <functional>

#include "tools/lab/hostnccl/communicator.h"

namespace orrery::hostnccl {

void group_start();
// The first error of the group's calls (nothing is launched then), of a communicator's set-up, ncclInProgress when a
// non-blocking one is being set up, else ncclSuccess. ncclInvalidUsage without a group_start().
ncclResult_t group_end();

// Both work inside and outside a group: outside, they make a group of one.
ncclResult_t add_operation(Communicator& communicator, const Operation& operation);
// Sets `communicator` up by `job`. When that fails, `on_failure` is called (it frees the communicator and clears the
// caller's handle). `communicator` is null for a rank that only takes part in a split; the job then runs on its own.
ncclResult_t add_set_up(Communicator* communicator, std::function<Status()> job, std::function<void()> on_failure);
// Marks the thread's group as failed and returns `result`, for calls refused before they were added.
ncclResult_t refuse(ncclResult_t result);

}  // namespace orrery::hostnccl
