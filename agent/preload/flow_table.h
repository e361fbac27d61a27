// TCP connections of this process by descriptor: who they lead to, what they carried, what the plan says about them.
//
// Fixed size, lock-free. Descriptors at or above kMaxDescriptors are not followed. Threads may use one connection at
// once; an application that closes a descriptor under another thread's send makes a count wrong, never a crash: nothing
// here is ever freed.
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "agent/preload/comm_table.h"
#include "agent/preload/endpoint.h"
#include "agent/preload/process.h"

namespace orrery::preload {

inline constexpr int kMaxDescriptors = 65536;
inline constexpr uint32_t kMaxFlows = 8192;
inline constexpr uint16_t kNoOrdinal = 0xfffe;  // matches no plan entry but those for all ordinals

// What is remembered of holding a flow back for its release offset.
struct ReleaseHold {
  uint64_t since_ns;  // 0 when the burst is not being held
  uint64_t start_ns;  // start of the collective the flow was last held for; it is held once for each
};

struct Flow {
  uint32_t references;  // descriptors; 0 when free
  uint32_t announced;   // the attachment that knows this flow
  uint32_t slot;        // of that attachment's segment
  uint32_t slot_generation;
  Endpoint local;
  Endpoint remote;
  uint8_t role;  // enum orrery_flow_role
  uint16_t ordinal;
  uint32_t born_by_entry;  // plan entry that chose the source port, 0xffffffff for none

  // What the plan says now; looked up again when the table's sequence has changed.
  uint32_t plan_generation;
  uint32_t plan_sequence;
  uint64_t plan_flow_id;
  uint64_t plan_comm_id;
  const Comm* plan_comm;  // where plan_comm_id was last found, null when not yet
  uint64_t release_offset_ns;

  uint64_t last_tx_ns;
  ReleaseHold hold;
  bool edge_triggered;  // one of its descriptors is in an epoll set so
  bool paced;           // the plan's pace is set on the socket
};

// One word per descriptor: index of its flow + 1, and whether it was put into an epoll set edge-triggered.
inline constexpr uint32_t kFlowMask = 0xffffu;
inline constexpr uint32_t kEdgeTriggered = 1u << 31;
extern uint32_t descriptors[kMaxDescriptors];
extern Flow flows[kMaxFlows];
static_assert(kMaxFlows < kFlowMask);

inline uint32_t descriptor(int fd) {
  return static_cast<uint32_t>(fd) < kMaxDescriptors ? __atomic_load_n(&descriptors[fd], __ATOMIC_RELAXED) : 0;
}
inline Flow* flow_of(int fd) {
  const uint32_t index = descriptor(fd) & kFlowMask;
  return index != 0 ? &flows[index - 1] : nullptr;
}

bool is_tcp(int fd);
bool has_local_port(int fd, uint16_t port);
// How many connections of that protocol this process had asked of that peer before; counts this one.
uint16_t next_ordinal(const Endpoint& remote, uint8_t protocol = IPPROTO_TCP);

// Starts to follow a connection whose local address the kernel knows by now. Nothing happens when it never leaves the
// host or the table is full.
void add_flow(int fd, const Endpoint& remote, orrery_flow_role role, uint16_t ordinal, uint32_t born_by_entry);
// The descriptor no longer means this connection.
void forget_descriptor(int fd);
// Whether the descriptor still means the flow's connection: some calls of the C library close descriptors without our
// knowing (fclose, closefrom), and their numbers come back as anything. Two system calls.
bool still_means(int fd, const Flow& flow);
void copy_descriptor(int from, int to);
void mark_edge_triggered(int fd);
// Every descriptor of [first, last].
void forget_range(uint32_t first, uint32_t last);

// In a forked child: nothing is known any more.
void forget_flows_of_parent();

void announce_flow(Flow& flow);
void announce_all_flows();

// The counters of a flow the current agent knows, else null. Precondition: attached.
inline orrery_flow_counters* counters_of(const Flow& flow) {
  return __atomic_load_n(&flow.announced, __ATOMIC_ACQUIRE) == generation() && flow.slot != shm::SegmentWriter::kNoSlot
             ? attachment.segment.counters(flow.slot)
             : nullptr;
}

}  // namespace orrery::preload
