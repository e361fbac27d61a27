// A profiler plug-in of the user's, behind ours.
//
// It is found in one of two ways: NCCL_PROFILER_PLUGIN names its library (or it has NCCL's default name), so that NCCL
// looks its ncclProfiler_vN up and our dlsym hook answers with ours; or NCCL has been told to use us, and
// ORRERY_PROFILER_CHAIN names its library, which we load when the first communicator is made, and keep.
//
// It sees what it would have seen alone: its own contexts, its own handles (where it gave one, that is the handle NCCL
// keeps, so nothing has to be translated or kept), the events its own mask asks for, and the descriptors of the newest
// version that it and NCCL both speak. Parents that are ours and not its own read null.
#pragma once

#include "agent/preload/hook_names.h"
#include "agent/preload/profiler_abi.h"

namespace orrery::preload::profiler {

struct Chain {
  int version;        // 0: there is none
  const void* table;  // Table<version>
};

struct InitArguments {
  uint64_t comm_hash;
  const char* comm_name;
  int nodes, nranks, rank;
  Logger log;
};

// For an NCCL that has chosen `version`, which is about to make a communicator. Loads the library when that is due.
const Chain& chain_for(int version);
// What the last one found.
const Chain& current_chain(int version);

// False when the plug-in refuses; then it is not to be told of this communicator.
bool chained_init(const Chain& chain, void** context, const InitArguments& arguments);
// What its mask asks for now; it may change it at any time.
int chained_mask();
// Whether NCCL would have made this event for that mask alone.
bool is_wanted(int version, uint64_t type, int mask);

// `descriptor` is of NCCL's version `version`; its parents have been seen to. *event is what the plug-in made it.
void chained_start(const Chain& chain, int version, void* context, void** event, void* descriptor);
void chained_stop(const Chain& chain, void* event);
void chained_record(const Chain& chain, int version, void* event, int state, void* arguments);
void chained_finalize(const Chain& chain, void* context);

// Handles of the plug-in's that are events of calls recorded into a CUDA graph: bounded, forgets the oldest.
void mark_captured(void* event, bool captured);
bool is_marked_captured(void* event);

}  // namespace orrery::preload::profiler
