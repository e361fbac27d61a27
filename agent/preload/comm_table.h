// NCCL communicators of this process by handle. Fixed size, lock-free; a handle is retired before NCCL frees it,
// because heap addresses return.
#pragma once

#include <stdint.h>

#include "agent/preload/nccl_identity.h"

namespace orrery::preload {

// What a collective reads is in the first cache line.
struct alignas(64) Comm {
  void* handle;      // key; written last
  uint64_t comm_id;  // 0: its other ranks can't know the same number, so it is only forwarded for, never told of
  uint64_t last_start_ns;
  uint32_t rank;
  uint32_t nranks;     // 0: NCCL would not say yet
  uint32_t announced;  // the attachment that knows this communicator
  uint32_t copy;       // number of the copy of NCCL that made it
  uint32_t profiled;   // which profiler context tells of it too, 0: none (profiler_comms.h)
  uint64_t parent_id;
  NcclIdentity nccl;
  uint32_t children;        // split and grown so far: part of a child's identity, and of NCCL's own
  uint32_t device_traffic;  // not 0: kernels may send through it
  uint64_t last_excluded;   // the set of ranks without which it was shrunk last, as a hash
  uint32_t same_excluded;   // how often in a row
};

// Null when the handle is unknown (made by a way we do not wrap, or the table was full).
Comm* find_comm(void* handle);
// Null when the table is full around the handle's place; then the communicator goes unrecorded.
Comm* add_comm(void* handle, const Comm& values);
// The communicator with this rank and size (0: any) that no profiler context tells of, when there is only one.
Comm* only_unprofiled_comm(uint32_t rank, uint32_t nranks);
// Forgets the handle. False when it was unknown; else *values is what was known.
bool retire_comm(void* handle, Comm* values);

// Start of the last collective of the communicator, of any communicator for id 0; 0 when there was none. *where saves
// the caller's next search.
uint64_t last_collective_start(uint64_t comm_id, const Comm** where);
void note_collective_start(Comm* comm, uint64_t now);

// COMM_INIT, with the doorbell's business left to the caller. Precondition: attached.
void emit_comm_init(uint64_t comm_id, uint64_t parent_id, uint32_t rank, uint32_t nranks);
void emit_comm_ready(const Comm& comm);
void emit_comm_gone(uint64_t comm_id, uint64_t parent_id, uint32_t rank, uint32_t nranks);
void emit_device_traffic(const Comm& comm);
// In a forked child: nothing is known any more.
void forget_comms_of_parent();
// Tells a new agent what it missed. True when there was something to tell.
bool announce_all_comms();

}  // namespace orrery::preload
