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

// The provider's own functions, behind our hooks. One object per distinct set, for good.
struct ProviderOps {
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  int (*poll_cq)(ibv_cq*, int, ibv_wc*);
};

// Functions of the copy of libibverbs (there may be several) that made the queue pair.
struct VerbsCopy;

// Held back work requests of one queue pair (deferral); its layout is that part's business.
struct HeldSends;

// The pointers of an extended queue pair that we replaced (verbs_extended.h).
struct ExtendedOps;

struct alignas(64) Qp {
  // The line of the data path.
  ibv_qp* qp;                    // key; null when free
  orrery_flow_counters* flow;    // valid for live_generation, then never null; in the sink when the agent had no room
  orrery_qp_counters* counters;  // the same
  uint32_t live_generation;      // attachment the counters belong to; 0: not counted
  uint32_t sending;              // 1 while a thread updates the counters of the sending side
  uint64_t last_tx_ns;
  uint32_t spilled;        // 1 when a thread found `sending` taken and left its counts in `spill`
  uint32_t plan_sequence;  // of the table that the plan fields below come from
  // The plan delays or paces this queue pair, or sends of it are held: every post goes to timed_post_send().
  bool timed;
  bool loopback;      // leads to itself (NCCL's flush): never steered, never held
  bool sig_all;       // sq_sig_all of its creation
  bool has_received;  // receives were posted
  bool sends_data;    // carried something other than what a clear-to-send looks like
  uint8_t type;       // enum ibv_qp_type

  // Identity. Valid from creation.
  const ibv_context* context;
  uint32_t qpn;
  uint32_t dest_qpn;
  const ProviderOps* ops;
  VerbsCopy* copy;
  uint32_t max_inline;

  // Path. Valid from the first RESET -> RTR on (`ready`), replaced at the next.
  bool ready;  // RTR or later; a flow exists
  bool lag;
  bool can_move;  // the provider can change the source port of the live queue pair
  bool label_ours;
  bool is_roce_v2;
  uint8_t port_num;
  uint32_t cycle;    // how often it was made ready before
  uint16_t ordinal;  // n-th queue pair of this process to that peer
  uint16_t udp_sport;
  uint32_t flow_label;     // in force
  uint8_t traffic_class;   // in force
  uint32_t born_by_entry;  // plan entry that chose the label, kNoPlanEntry for none
  Endpoint local;          // the source GID, port = udp_sport
  Endpoint remote;         // the destination GID, port 4791
  ibv_ah_attr path;        // in force: what a live re-path changes

  // Announcement to the agent.
  uint32_t announced;  // the attachment that knows this flow
  uint32_t slot;       // of that attachment's segment
  uint32_t slot_generation;

  // What the plan says now; looked up again at the start of a burst when the table's sequence has changed.
  uint32_t plan_generation;
  uint64_t plan_flow_id;
  uint64_t plan_comm_id;
  const Comm* plan_comm;  // where plan_comm_id was last found, null when not yet
  uint64_t release_offset_ns;
  uint64_t pace_bps;

  // What other threads counted while `sending` was taken.
  orrery_flow_counters spill_flow;
  orrery_qp_counters spill;

  HeldSends* held;        // null when nothing is held and nothing ever was
  ExtendedOps* extended;  // null for a queue pair without ibv_wr_*
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
  VerbsCopy* copy;
  bool sig_all;
  uint32_t max_inline;
};
// Null when the table is full. An entry of an earlier queue pair at the same address is replaced.
Qp* add_qp(const QpCreation& creation);
void remove_qp(Qp& qp);

// The flow of this queue pair exists from now on / no longer does. Precondition: `path`, `local`, `remote` and what
// stands with them are filled in.
void begin_flow(Qp& qp);
void end_flow(Qp& qp);
// The flow's source port has changed while it ran: QP_MOVED. Precondition: attached.
void emit_qp_moved(Qp& qp);
// Tells a new agent what it missed.
void announce_all_qps();

// Looks the queue pair up again if the plan table has changed, and calls timing_plan_changed() if so. Precondition:
// attached and ready.
void refresh_qp_plan_slow(Qp& qp, uint64_t now);
inline void refresh_qp_plan(Qp& qp, uint64_t now) {
  if (qp.plan_sequence != attachment.plan.sequence() || qp.plan_generation != generation()) [[unlikely]]
    refresh_qp_plan_slow(qp, now);
}

// Counts work requests of a chain that the provider took (from `wr` up to, not including, `end`; null: all) and refused
// (the rest). `now` is the time of the post, `burst` whether it began a burst. Any
// thread; exact.
void count_posted(Qp& qp, const ibv_send_wr* wr, const ibv_send_wr* end, uint64_t now, bool burst);

// The real ibv_modify_qp of the copy of libibverbs that the program uses for this queue pair. Keeps nothing back: the
// answer and errno are its.
int modify_qp_really(Qp& qp, ibv_qp_attr* attr, int mask);

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
