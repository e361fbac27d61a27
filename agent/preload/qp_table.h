// The queue pairs of this process: who they lead to, what they carried, what the plan says about them.
//
// Fixed size; looking up is lock-free and takes one probe as a rule, so that the hooks of the data path can afford it.
// Adding and removing happen on the control path, under a spin lock. Nothing is ever freed: a program that destroys a
// queue pair under another thread's post makes a count wrong, never a crash.
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "agent/preload/comm_table.h"
#include "agent/preload/endpoint.h"
#include "agent/preload/process.h"

namespace orrery::preload {

inline constexpr uint32_t kMaxQps = 4096;
inline constexpr uint32_t kQpBuckets = 8192;  // a power of two
inline constexpr uint32_t kQpProbes = 32;
inline constexpr uint16_t kRoceUdpPort = 4791;
inline constexpr uint32_t kNoPlanEntry = 0xffffffffu;

enum ProviderKind : uint8_t { kOtherProvider, kRxeProvider, kMlx5Provider };

// The provider's own functions, behind our hooks. One object per distinct set, for good.
struct ProviderOps {
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  int (*poll_cq)(ibv_cq*, int, ibv_wc*);
  ProviderKind kind;
};

// The real ibv_modify_qp of one copy of libibverbs; there may be several in a process.
using ModifyQp = int (*)(ibv_qp*, ibv_qp_attr*, int);

// What a chain of send work requests adds to the counters.
struct SendTally {
  uint64_t tx_bytes, rx_bytes;  // rx: what reads will bring
  uint64_t posted_sends, failed_posts;
  uint64_t writes, write_imms, sends, reads, atomics_and_others;
  uint64_t control_writes, flush_reads, zero_imms;
  uint64_t unsignaled;  // that complete only with a later one; not for the agent
};

// Held back work requests of one queue pair (deferral); its layout is that part's business.
struct HeldSends;

// Which posts to a queue pair go to timed_post_send(), because the plan times or moves it.
enum Timed : uint8_t { kTimedNever, kTimedBursts, kTimedAlways };

// The line of the data path.
struct alignas(64) QpLive {
  ibv_qp* qp;                    // key; null when free
  orrery_flow_counters* flow;    // valid for live_generation, then never null; a sink when there is none of the agent's
  orrery_qp_counters* counters;  // the same
  uint32_t live_generation;      // attachment the counters belong to; 0: not counted
  uint32_t sending;              // 1 while a thread updates the counters of the sending side, see posting_lock.h
  uint64_t last_tx_ns;
  const void* poster;       // the only thread that has posted (its thread_state), see posting_lock.h
  uint32_t poster_at_work;  // 1 while it updates the counters
  uint32_t spilled;         // 1 when a thread found another at the counters and left its own counts in `spill`
  uint8_t timed;            // enum Timed
  bool loopback;            // leads to itself (NCCL's flush): never steered, never held
  bool has_received;        // receives were posted to it
  bool sends_data;          // carried something that is not a clear-to-send
  bool last_unsignaled;     // the last send posted gives no completion
};

// Where it leads. Replaced as a whole at each RESET -> RTR.
struct QpPath {
  Endpoint local;       // the source GID, port = udp_sport
  Endpoint remote;      // the destination GID, port 4791
  ibv_ah_attr address;  // in force; what a live re-path changes
  uint32_t dest_qpn;
  uint32_t flow_label;     // in force; 0: the kernel hashes the QPNs
  uint32_t born_by_entry;  // plan entry that chose the label, kNoPlanEntry for none
  uint16_t udp_sport;
  uint16_t ordinal;  // n-th RC queue pair of this process to that peer
  uint8_t traffic_class;
  uint8_t port_num;
  bool label_ours;
  bool lag;       // on a bonded port
  bool can_move;  // the provider can change the source port of the live queue pair
};

struct Qp : QpLive, QpPath {
  // Valid from creation.
  const ibv_context* context;
  uint32_t birth;  // tells the queue pairs apart that this entry is given to, one after another
  uint32_t qpn;
  uint8_t type;                                    // enum ibv_qp_type
  bool sig_all;                                    // sq_sig_all of its creation
  bool extended;                                   // its ibv_wr_* pointers are in use: sends pass by the post_send hook
  bool can_defer;                                  // its sends can be held back
  uint32_t max_send_wr, max_send_sge, max_inline;  // as granted; 0: not known
  const ProviderOps* ops;
  ModifyQp modify;  // of the copy of libibverbs that the program uses for it; null until its first ibv_modify_qp

  // The ordinal it was given, and for which peer; kept over RESET.
  bool numbered;
  uint16_t number;
  uint8_t numbered_peer[16];

  bool ready;            // a flow exists: made RTR, and neither RESET nor destroyed since
  uint32_t cycles;       // how often it was made ready
  uint64_t early_recvs;  // receives posted before there was a flow to count them for

  uint32_t drained_events;  // IBV_EVENT_SQ_DRAINED that the program is not to see, because a move causes them

  // Announcement to the agent.
  uint64_t unsignaled_sends;  // of posted_sends
  bool counted_whole;         // the agent's counters know of every send since the queue pair was made ready
  uint32_t announced;         // the attachment that knows this flow
  uint32_t slot;              // of that attachment's segment
  uint32_t slot_generation;

  // What the plan says now; looked up again at the start of a burst when the table's sequence has changed.
  uint32_t plan_generation;
  uint32_t plan_sequence;
  uint64_t plan_flow_id;
  uint64_t plan_comm_id;
  const Comm* plan_comm;  // where plan_comm_id was last found, null when not yet
  uint64_t release_offset_ns;
  uint64_t pace_bps;

  SendTally spill;  // what other threads counted while one was at the counters

  HeldSends* held;  // null when nothing is held and nothing ever was; survives the queue pair
};

extern Qp* qps_by_address[kQpBuckets];
extern Qp* qps_by_number[kQpBuckets];
extern Qp qp_tombstone;  // marks a bucket whose queue pair was removed

inline uint32_t qp_bucket(const ibv_qp* qp) {
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(qp) >> 4) * 0x9e3779b97f4a7c15ull >> 40);
}
inline uint32_t qp_bucket(const ibv_context* context, uint32_t qpn) {
  return static_cast<uint32_t>(((reinterpret_cast<uintptr_t>(context) >> 4) + qpn) * 0x9e3779b97f4a7c15ull >> 40);
}

// Null when it was made in a way we do not see, or the table was full.
inline Qp* find_qp(const ibv_qp* qp) {
  const uint32_t bucket = qp_bucket(qp);
  for (uint32_t i = 0; i < kQpProbes; ++i) {
    Qp* found = __atomic_load_n(&qps_by_address[(bucket + i) & (kQpBuckets - 1)], __ATOMIC_ACQUIRE);
    if (found == nullptr) return nullptr;
    if (found->qp == qp) [[likely]]
      return found;
  }
  return nullptr;
}
inline Qp* find_qp(const ibv_context* context, uint32_t qpn) {
  const uint32_t bucket = qp_bucket(context, qpn);
  for (uint32_t i = 0; i < kQpProbes; ++i) {
    Qp* found = __atomic_load_n(&qps_by_number[(bucket + i) & (kQpBuckets - 1)], __ATOMIC_ACQUIRE);
    if (found == nullptr) return nullptr;
    if (found->qpn == qpn && found->context == context) [[likely]]
      return found;
  }
  return nullptr;
}

struct QpCreation {
  ibv_qp* qp;
  const ProviderOps* ops;
  bool sig_all;
  ibv_qp_cap cap;  // as granted; all zero when not known
};
// Null when the table is full. An entry of an earlier queue pair at the same address is replaced.
Qp* add_qp(const QpCreation& creation);
// Nothing happens when the entry has been given to another queue pair since `birth`.
void remove_qp(Qp& qp, uint32_t birth);
void remove_qps_of(const ibv_context* context);

// The queue pair has become able to receive: its flow exists from now on.
void begin_flow(Qp& qp, const QpPath& path);
// It was reset.
void end_flow(Qp& qp);
// The flow's source port has changed while it ran: QP_MOVED. Precondition: attached.
void emit_qp_moved(Qp& qp);
// Tells a new agent what it missed.
void announce_all_qps();
// In a forked child: nothing is known any more.
void forget_qps_of_parent();

// Looks the queue pair up again if the plan table has changed, and calls timing_plan_changed() if so (which must not
// begin or end flows). Precondition: attached and ready.
void refresh_qp_plan_slow(Qp& qp, uint64_t now);
inline void refresh_qp_plan(Qp& qp, uint64_t now) {
  if (qp.plan_sequence != attachment.plan.sequence() || qp.plan_generation != generation()) [[unlikely]]
    refresh_qp_plan_slow(qp, now);
}

// The port that the kernel's formula gives, and the label that gives a port of [0xC000, 0xffff].
inline uint16_t udp_sport_of(uint32_t flow_label, uint32_t qpn, uint32_t dest_qpn) {
  if (flow_label == 0) {
    uint64_t v = static_cast<uint64_t>(qpn) * dest_qpn;
    v ^= v >> 20;
    v ^= v >> 40;
    flow_label = static_cast<uint32_t>(v & 0xfffff);
  }
  return static_cast<uint16_t>(0xc000 | ((flow_label & 0x3fff) ^ ((flow_label & 0xfc000) >> 14)));
}
inline uint32_t flow_label_of(uint16_t udp_sport) {
  return udp_sport == 0xc000 ? 0x4001u : udp_sport & 0x3fffu;
}

}  // namespace orrery::preload
