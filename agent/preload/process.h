// What the library knows about the process and the calling thread. All of it is static: there is one library per
// process, it allocates nothing, and nothing is torn down at exit.
#pragma once

#include <stdint.h>
#include <time.h>

#include "common/shm/plan_reader.h"
#include "common/shm/segment_writer.h"

namespace orrery::preload {

enum Arm : uint32_t {
  kOff = 0,       // disabled, or nothing of interest was called yet (in a forked child: since the fork): only forward
  kSeeking = 1,   // no agent yet
  kAttached = 2,  // segment and plan table are mapped
};

// The kernel empties this page in a forked child (MADV_WIPEONFORK), which thereby is off, whatever kind of fork it was.
struct alignas(4096) ForkWiped {
  uint32_t arm;
  uint32_t generation;  // number of the current attachment; 0 is none
};
extern ForkWiped fork_wiped;

struct Attachment {
  shm::SegmentWriter segment;
  shm::PlanReader plan;
  uint32_t abi_version;  // agreed with the agent: it knows no event, operation or counter that came later
  uint64_t flowlet_gap_ns;
  uint64_t hold_cap_ns;
};
// Meaningful while attached. Replaced in place by a new attachment; a thread that still uses the old values then writes
// into memory that is always mapped (attach.cpp keeps the addresses), and what it writes is checked by the agent.
extern Attachment attachment;

inline uint32_t arm() {
  return __atomic_load_n(&fork_wiped.arm, __ATOMIC_ACQUIRE);
}
inline bool attached() {
  return arm() == kAttached;
}
inline uint32_t generation() {
  return __atomic_load_n(&fork_wiped.generation, __ATOMIC_RELAXED);
}
// Between publishing what an agent is to be told of and looking whether there is one, and between attaching and looking
// for what to tell: one side sees the other, or both do. (The processor may otherwise look before it has published.)
inline void fence_announcement() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

inline constexpr uint32_t kMaxGroupComms = 8;
inline constexpr uint32_t kMaxGroupsOfThread = 8;

// An open group: a thread has one per copy of NCCL, whose groups know nothing of each other.
struct ThreadGroup {
  uint32_t level;
  uint32_t number;
  uint32_t calls;
};

struct GroupComm {
  void* handle;
  uint32_t copy;
};

struct Thread {
  orrery_ring_header* ring;
  uint32_t ring_generation;
  uint32_t id;
  bool pushing;
  uint32_t depth;  // how many of our NCCL wrappers are on this thread's stack
  uint32_t copy;   // number of the copy of NCCL that is at work, at depth > 0
  uint32_t last_group_number;
  uint32_t group_comm_count;
  uint32_t calls_to_tick;
  ThreadGroup groups[kMaxGroupsOfThread];
  GroupComm group_comms[kMaxGroupComms];
  bool has_withheld;  // a call's event that waits for the profiler (profiler_comms.h)
  orrery_event withheld;
};
extern __thread Thread thread_state __attribute__((tls_model("initial-exec")));

inline uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// The first call that concerns us turns the library from kOff to kSeeking. A forked child is a process of its own, with
// nothing of its parent's, from its first such call on. False when it stays off: kill switch, set-uid program.
bool become_interested();
// Whether this is the process that became interested, and not a child of it (a vfork child shares our memory). One
// system call.
bool is_own_process();

// Puts the event into this thread's ring, stamped with the thread. Precondition: attached. What does not fit is
// counted.
void emit(orrery_event& event);

enum LogLevel { kLogNone = 0, kLogError = 1, kLogInfo = 2 };
// One line on stderr, without formatting or allocation, when ORRERY_LOG asks for it.
void say(LogLevel level, const char* what, const char* detail = "");
// The same, whatever ORRERY_LOG says: the program is about to fail and would not know why.
void say_always(const char* what, const char* detail = "");

}  // namespace orrery::preload
