// The communicators NCCL tells the profiler plug-in of, and which of them the API wrappers know.
//
// NCCL calls the plug-in's init from within the making of a communicator, on the caller's thread or on one of its own.
// The wrappers therefore announce beforehand what is being made ("expect"), and init takes the expectation that fits:
// the one with NCCL's own name for it (nccl_identity.h), else the only one of its own thread, else the only one with
// this rank and size. What fits none comes from an NCCL whose API
// we do not see (hidden in a static library): then the profiler is the only source. What fits several belongs to the
// API, but to which of its communicators shows later, at an event, when only one without a profiler context has that
// rank and size; until then nothing is reported, rather than under a wrong name.
//
// A communicator of a hidden NCCL gets its id from NCCL's own hash of it, equal on all ranks, and an entry in the
// communicator table with its context for a handle: a new agent is told of it and release offsets find its starts.
//
// Static, of fixed size, never on a hot path but for profiled_call(). Safe from any thread.
#pragma once

#include "agent/preload/comm_table.h"
#include "agent/preload/process.h"

namespace orrery::preload::profiler {

struct Context {
  int version;        // of the interface NCCL chose
  bool known_to_api;  // else a hidden NCCL's
  bool told_ready;    // hidden: COMM_READY was sent
  uint32_t rank;
  uint32_t nranks;     // 0: not known (versions 1 to 3 do not say)
  uint64_t nccl_hash;  // 0: not known yet
  Comm* comm;          // null: not known yet
  void* handle;        // of comm, when it became known
  uint32_t searches;   // for the API's communicator
  uint32_t credits;    // versions 1 to 4: API calls whose event has not come
  uint64_t last_credit_ns;
  // Of a plug-in of the user's behind us:
  bool chained;
  void* chained_context;
  int* mask;      // NCCL's
  int mask_seen;  // what we last made it from
};

// Null when there are too many.
Context* new_context(int version);
// `context` as NCCL hands it back: null when it is none of ours (PXN: another process's).
Context* find_context(void* context);
void free_context(Context* context);

// Finds the communicator of a new context. 0 for what the version does not say.
void identify(Context* context, uint64_t nccl_hash, uint32_t rank, uint32_t nranks);
// Tells the agent of a hidden NCCL's communicator, once enough is known of it.
void announce(Context* context);
// The communicator under whose id the context's events are reported; null when they are not to be.
// Not by the rank of a descriptor: those of API events all say 0 (NCCL 2.28 to 2.30).
Comm* comm_of(Context* context);
// Versions 1 to 4: whether an event of the context is that of a call the API wrappers have reported.
bool take_credit(Context* context, uint64_t now);
// The communicator is about to be freed.
void forget(Context* context);

}  // namespace orrery::preload::profiler

namespace orrery::preload {

// For the NCCL wrappers: a communicator is about to be made on this thread. 0: nothing is expected.
uint32_t expect_profiled(const Comm& facts);
// It is in the table now.
void expected_is_known(uint32_t ticket, Comm* comm);
// It has been made, or not: no init will come for it.
void stop_expecting(uint32_t ticket);

// Called for a call on a communicator with Comm::profiled set, instead of emit(): reports the event, or leaves it to
// the profiler, which is told within this call whether a graph captures it.
void profiled_call(const Comm& comm, orrery_event& event);
// When NCCL has returned: what the profiler was not told of after all is reported.
void report_withheld_slow();

}  // namespace orrery::preload
