#include "agent/preload/qp_table.h"

#include <string.h>

#include "agent/preload/control_lock.h"
#include "agent/preload/flow_table.h"
#include "agent/preload/qp_count.h"
#include "agent/preload/qp_timing.h"
#include "agent/preload/release_thread.h"
#include "agent/preload/verbs_clock.h"

namespace orrery::preload {

Qp* qps_by_address[kQpBuckets];
Qp* qps_by_number[kQpBuckets];
constinit Qp qp_tombstone{};

namespace {

Qp qps[kMaxQps];
uint32_t qps_used = 0;  // entries that have ever been in use
uint32_t qp_hint = 0;
// Where counts go of a queue pair for which the agent has no room.
constinit orrery_flow_counters sink_flow{};
constinit orrery_qp_counters sink_counters{};

// Guards adding, removing and announcing. Never taken on a data path, nor by a signal handler: announcing to a new
// agent may happen in one, and is left to the holder then.
struct TableLock {
  ControlLock lock;
  uint32_t announce_wanted;
};
constinit TableLock table{};

void announce_all_locked();

void unlock() {
  while (__atomic_exchange_n(&table.announce_wanted, 0u, __ATOMIC_ACQ_REL) != 0) announce_all_locked();
  table.lock.unlock();
  fence_announcement();
  if (__atomic_load_n(&table.announce_wanted, __ATOMIC_ACQUIRE) != 0 && table.lock.try_lock()) unlock();
}

class Locked {
 public:
  Locked() { table.lock.lock(); }
  ~Locked() { unlock(); }
};

void put(Qp** buckets, uint32_t home, Qp* qp) {
  for (uint32_t i = 0; i < kQpProbes; ++i) {
    Qp*& bucket = buckets[(home + i) & (kQpBuckets - 1)];
    if (bucket != nullptr && bucket != &qp_tombstone) continue;
    __atomic_store_n(&bucket, qp, __ATOMIC_RELEASE);
    return;
  }
}

bool has_room(Qp* const* buckets, uint32_t home) {
  for (uint32_t i = 0; i < kQpProbes; ++i) {
    const Qp* bucket = buckets[(home + i) & (kQpBuckets - 1)];
    if (bucket == nullptr || bucket == &qp_tombstone) return true;
  }
  return false;
}

void take_out(Qp** buckets, uint32_t home, const Qp* qp) {
  for (uint32_t i = 0; i < kQpProbes; ++i) {
    Qp*& bucket = buckets[(home + i) & (kQpBuckets - 1)];
    if (bucket == nullptr) return;
    if (bucket != qp) continue;
    // A tombstone is needed only where a longer chain of probes may lead on.
    const bool last = buckets[(home + i + 1) & (kQpBuckets - 1)] == nullptr;
    __atomic_store_n(&bucket, last ? nullptr : &qp_tombstone, __ATOMIC_RELEASE);
    return;
  }
}

void emit_born(const Qp& qp) {
  orrery_event event{};
  event.time_ns = now_ns();
  event.type = ORRERY_EVENT_FLOW_BORN;
  memcpy(event.flow.local_address, qp.local.address, 16);
  memcpy(event.flow.remote_address, qp.remote.address, 16);
  event.flow.local_port = qp.udp_sport;
  event.flow.remote_port = kRoceUdpPort;
  event.flow.protocol = IPPROTO_UDP;
  event.flow.role = ORRERY_ROLE_CONNECT;
  event.flow.slot = static_cast<uint16_t>(qp.slot);
  event.flow.generation = qp.slot_generation;
  event.flow.plan_index = qp.born_by_entry;
  emit(event);
}

void emit_gone(const Qp& qp) {
  orrery_event event{};
  event.time_ns = now_ns();
  event.type = ORRERY_EVENT_FLOW_GONE;
  event.flow.protocol = IPPROTO_UDP;
  event.flow.slot = static_cast<uint16_t>(qp.slot);
  event.flow.generation = qp.slot_generation;
  event.flow.plan_index = kNoPlanEntry;
  emit(event);
}

uint8_t flags_of(const Qp& qp) {
  return static_cast<uint8_t>(
      (qp.label_ours ? ORRERY_QP_LABEL_OURS : 0) | (qp.can_move ? ORRERY_QP_CAN_MOVE : 0) |
      (qp.loopback ? ORRERY_QP_LOOPBACK : 0) | (qp.lag ? ORRERY_QP_LAG : 0) |
      (qp.can_defer && !qp.loopback && !qp.extended && !release_thread_is_refused() ? ORRERY_QP_CAN_DEFER : 0));
}

// What only version 2 of the ABI knows.
void emit_qp(uint32_t type, const Qp& qp) {
  orrery_event event{};
  event.time_ns = now_ns();
  event.type = type;
  event.qp.generation = qp.slot_generation;
  event.qp.slot = static_cast<uint16_t>(qp.slot);
  event.qp.qp_type = qp.type;
  event.qp.port_num = qp.port_num;
  event.qp.qpn = qp.qpn;
  event.qp.dest_qpn = qp.dest_qpn;
  event.qp.flow_label = qp.flow_label;
  event.qp.cycle = qp.cycles - 1;
  event.qp.udp_sport = qp.udp_sport;
  event.qp.traffic_class = qp.traffic_class;
  event.qp.flags = flags_of(qp);
  event.qp.plan_index = qp.born_by_entry;
  const char* name = qp.context->device->name;
  memcpy(event.qp.device, name, strnlen(name, sizeof(event.qp.device)));
  emit(event);
}

bool speaks_of_qps(const Qp& qp) {
  return attachment.segment.qp_counters(qp.slot) != nullptr;
}

// Precondition: attached and ready; under the lock.
void announce(Qp& qp) {
  const uint32_t current = generation();
  if (qp.announced == current) return;
  qp.counted_whole = false;
  qp.slot = attachment.segment.claim_flow(static_cast<uint32_t>(&qp - qps));
  qp.flow = &sink_flow;
  qp.counters = &sink_counters;
  if (qp.slot != shm::SegmentWriter::kNoSlot) {
    qp.flow = attachment.segment.counters(qp.slot);
    if (orrery_qp_counters* counters = attachment.segment.qp_counters(qp.slot)) qp.counters = counters;
    qp.slot_generation = qp.flow->generation;
    add_shared(&qp.counters->posted_recvs, __atomic_exchange_n(&qp.early_recvs, uint64_t{0}, __ATOMIC_RELAXED));
    shm::store_relaxed(&qp.flow->plan_flow_id, qp.plan_flow_id);
    emit_born(qp);
    if (speaks_of_qps(qp)) emit_qp(ORRERY_EVENT_QP_READY, qp);
  }
  qp.announced = current;
  __atomic_store_n(&qp.live_generation, current, __ATOMIC_RELEASE);
}

void announce_all_locked() {
  if (!attached()) return;
  for (uint32_t i = 0; i < qps_used; ++i)
    if (qps[i].qp != nullptr && qps[i].ready) announce(qps[i]);
}

void retire(Qp& qp) {
  if (!qp.ready) return;
  if (attached() && qp.announced == generation()) {
    if (__atomic_load_n(&qp.spilled, __ATOMIC_ACQUIRE) != 0) collect_spill_if_free(qp);
    if (qp.slot != shm::SegmentWriter::kNoSlot) {
      emit_gone(qp);
      attachment.segment.release_flow(qp.slot, qp.slot_generation);
    }
  }
  __atomic_store_n(&qp.live_generation, 0u, __ATOMIC_RELEASE);
  qp.ready = qp.has_received = qp.counted_whole = false;
  qp.early_recvs = 0;
  qp.announced = 0;
}

void remove_locked(Qp& qp) {
  forget_held_sends(qp);
  retire(qp);
  take_out(qps_by_address, qp_bucket(qp.qp), &qp);
  take_out(qps_by_number, qp_bucket(qp.context, qp.qpn), &qp);
  __atomic_store_n(&qp.qp, static_cast<ibv_qp*>(nullptr), __ATOMIC_RELEASE);
}

// The entry that has been free for longest, more or less.
Qp* claim() {
  for (uint32_t i = 0; i < qps_used; ++i) {
    Qp& qp = qps[(qp_hint + i) % qps_used];
    if (qp.qp != nullptr) continue;
    qp_hint = (qp_hint + i + 1) % qps_used;
    return &qp;
  }
  return qps_used < kMaxQps ? &qps[qps_used++] : nullptr;
}

}  // namespace

Qp* add_qp(const QpCreation& creation) {
  const Locked locked;
  if (Qp* stale = find_qp(creation.qp)) remove_locked(*stale);
  const ibv_context* context = creation.qp->context;
  const uint32_t qpn = creation.qp->qp_num;
  if (Qp* stale = find_qp(context, qpn)) remove_locked(*stale);
  if (!has_room(qps_by_address, qp_bucket(creation.qp)) || !has_room(qps_by_number, qp_bucket(context, qpn)))
    return nullptr;
  Qp* qp = claim();
  if (qp == nullptr) return nullptr;
  HeldSends* held = qp->held;  // its memory is used again
  const uint32_t birth = qp->birth;
  // Another thread may still be counting completions for the queue pair that had this entry: never null.
  Qp fresh{};
  fresh.flow = &sink_flow;
  fresh.counters = &sink_counters;
  fresh.held = held;
  fresh.birth = birth + 1;
  *qp = fresh;
  qp->context = context;
  qp->qpn = qpn;
  qp->type = static_cast<uint8_t>(creation.qp->qp_type);
  qp->ops = creation.ops;
  qp->sig_all = creation.sig_all;
  qp->max_send_wr = creation.cap.max_send_wr;
  qp->max_send_sge = creation.cap.max_send_sge;
  qp->max_inline = creation.cap.max_inline_data;
  qp->can_defer = can_be_held(*qp, *creation.qp);
  qp->ordinal = kNoOrdinal;
  qp->born_by_entry = kNoPlanEntry;
  __atomic_store_n(&qp->qp, creation.qp, __ATOMIC_RELEASE);
  put(qps_by_address, qp_bucket(creation.qp), qp);
  put(qps_by_number, qp_bucket(context, qpn), qp);
  return qp;
}

void remove_qp(Qp& qp, uint32_t birth) {
  const Locked locked;
  if (qp.qp != nullptr && qp.birth == birth) remove_locked(qp);
}

void remove_qps_of(const ibv_context* context) {
  const Locked locked;
  for (uint32_t i = 0; i < qps_used; ++i)
    if (qps[i].qp != nullptr && qps[i].context == context) remove_locked(qps[i]);
}

void begin_flow(Qp& qp, const QpPath& path) {
  const Locked locked;
  retire(qp);
  static_cast<QpPath&>(qp) = path;
  qp.ready = true;
  ++qp.cycles;
  qp.last_tx_ns = 0;
  qp.sends_data = false;
  qp.plan_generation = 0;
  if (!attached()) return;
  refresh_qp_plan(qp, now_ns());
  qp.unsignaled_sends = 0;
  qp.last_unsignaled = false;
  announce(qp);
  qp.counted_whole = qp.slot != shm::SegmentWriter::kNoSlot && speaks_of_qps(qp);
}

void end_flow(Qp& qp) {
  const Locked locked;
  retire(qp);
  qp.early_recvs = 0;
}

void emit_qp_moved(Qp& qp) {
  if (qp.announced == generation() && qp.slot != shm::SegmentWriter::kNoSlot && speaks_of_qps(qp))
    emit_qp(ORRERY_EVENT_QP_MOVED, qp);
}

void announce_all_qps() {
  __atomic_store_n(&table.announce_wanted, 1u, __ATOMIC_RELEASE);
  fence_announcement();
  if (table.lock.try_lock()) unlock();
}

void forget_qps_of_parent() {
  table.announce_wanted = 0;
  start_clock_anew();
  forget_held_sends_of_parent();
  for (uint32_t i = 0; i < qps_used; ++i) {
    if (qps[i].qp == nullptr) continue;
    qps[i].ready = false;  // nothing to be told to anybody
    remove_locked(qps[i]);
  }
}

void refresh_qp_plan_slow(Qp& qp, uint64_t now) {
  shm::PlanQuery query{};
  memcpy(query.local_address, qp.local.address, 16);
  memcpy(query.remote_address, qp.remote.address, 16);
  query.ordinal = qp.ordinal;
  query.protocol = IPPROTO_UDP;
  shm::PlanAnswer answer;
  const uint32_t sequence = attachment.plan.sequence();
  const bool found = !qp.loopback && attachment.plan.find(query, now, &answer);
  qp.plan_flow_id = found ? answer.entry.flow_id : 0;
  qp.plan_comm_id = found ? answer.entry.comm_id : 0;
  qp.release_offset_ns = found && !answer.release_suspended ? answer.entry.release_offset_ns : 0;
  qp.pace_bps = found ? answer.entry.pace_bps : 0;
  qp.plan_generation = generation();
  qp.plan_sequence = found ? answer.sequence : sequence;
  if (is_counted(qp)) shm::store_relaxed(&qp.flow->plan_flow_id, qp.plan_flow_id);
  timing_plan_changed(qp, found ? &answer : nullptr);
}

}  // namespace orrery::preload
