// The process's half of a segment: pushes events, keeps flow counters. Freestanding; no lock, heap or system call in
// any function.
//
// Ownership: does not own the mapping. Thread rules: a ring is pushed to only by the thread that claimed it; everything
// else is safe from any thread. All counters are monotonic and meant for people: what is lost is counted, never
// retried.
#pragma once

#include "common/shm/layout.h"

namespace orrery::shm {

class SegmentWriter {
 public:
  // False, and nothing is used, when the header does not describe `bytes` bytes of a version this code speaks.
  bool open(void* base, size_t bytes) {
    const auto* header = static_cast<const orrery_segment_header*>(base);
    if (bytes < sizeof(*header) || header->magic != ORRERY_SEGMENT_MAGIC || header->abi_version < ORRERY_ABI_OLDEST ||
        header->abi_version > ORRERY_ABI_VERSION)
      return false;
    const SegmentShape shape{header->ring_count, header->ring_events, header->flow_slots, header->abi_version >= 2};
    if (!shape.valid() || header->qps_offset != shape.qps_offset() || shape.total_bytes() > bytes ||
        header->ring_bytes != shape.ring_bytes() || header->header_bytes != sizeof(*header) ||
        header->flows_offset != shape.flows_offset())
      return false;
    base_ = base;
    shape_ = shape;
    return true;
  }

  const SegmentShape& shape() const { return shape_; }

  // A ring for `thread` (its kernel id): one it already owns, a free one, or one whose owner `is_alive` denies. Null
  // when all are in use.
  template <typename IsAlive>
  orrery_ring_header* claim_ring(uint32_t thread, IsAlive is_alive) {
    for (uint32_t i = 0; i < shape_.ring_count; ++i) {
      auto* ring = ring_at(base_, shape_, i);
      uint32_t owner = load_relaxed(&ring->owner);
      if (owner == thread) return ring;
      if (owner == 0 && take(ring, owner, thread)) return ring;
    }
    for (uint32_t i = 0; i < shape_.ring_count; ++i) {
      auto* ring = ring_at(base_, shape_, i);
      uint32_t owner = load_relaxed(&ring->owner);
      if (owner != 0 && !is_alive(owner) && take(ring, owner, thread)) return ring;
    }
    return nullptr;
  }

  static void release_ring(orrery_ring_header* ring) { __atomic_store_n(&ring->owner, 0u, __ATOMIC_RELEASE); }

  // False when the ring is full: the event is dropped and counted.
  bool push(orrery_ring_header* ring, const orrery_event& event) const {
    const uint64_t produced = load_relaxed(&ring->produced);
    if (produced - load_relaxed(&ring->consumed_seen) >= shape_.ring_events) [[unlikely]] {
      const uint64_t consumed = __atomic_load_n(&ring->consumed, __ATOMIC_ACQUIRE);
      store_relaxed(&ring->consumed_seen, consumed);
      if (produced - consumed >= shape_.ring_events) {
        store_relaxed(&ring->dropped, load_relaxed(&ring->dropped) + 1);
        return false;
      }
    }
    orrery_event* events = ring_events(ring);
    const uint32_t mask = shape_.ring_events - 1;
    events[produced & mask] = event;
    __atomic_store_n(&ring->produced, produced + 1, __ATOMIC_RELEASE);
    // The next line was last in the reader's cache; fetching it now hides that from the next push.
    __builtin_prefetch(&events[(produced + 1) & mask], 1);
    return true;
  }

  void count_no_ring() { __atomic_fetch_add(&header()->lost_no_ring, 1u, __ATOMIC_RELAXED); }

  static constexpr uint32_t kNoSlot = 0xffffffffu;

  // A zeroed counter slot with an odd generation, looked for from `hint` on; kNoSlot, counted, when all are in use.
  uint32_t claim_flow(uint32_t hint) {
    for (uint32_t i = 0; i < shape_.flow_slots; ++i) {
      const uint32_t slot = (hint + i) % shape_.flow_slots;
      auto* flow = flow_at(base_, shape_, slot);
      uint32_t generation = load_relaxed(&flow->generation);
      if (generation & 1) continue;
      if (!__atomic_compare_exchange_n(&flow->generation, &generation, generation + 1, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED))
        continue;
      fence_release();  // who sees a zero below sees the new generation, too
      store_relaxed(&flow->bursts, 0u);
      for (uint64_t* word = &flow->tx_bytes; word <= &flow->plan_flow_id; ++word) store_relaxed(word, uint64_t{0});
      if (shape_.qp_counters) {
        auto* qp = reinterpret_cast<uint64_t*>(qp_at(base_, shape_, slot));
        for (size_t word = 0; word < sizeof(orrery_qp_counters) / 8; ++word) store_relaxed(&qp[word], uint64_t{0});
      }
      return slot;
    }
    __atomic_fetch_add(&header()->lost_no_slot, 1u, __ATOMIC_RELAXED);
    return kNoSlot;
  }

  // Frees the slot; a second call with the same generation changes nothing.
  void release_flow(uint32_t slot, uint32_t generation) {
    if (slot >= shape_.flow_slots || !(generation & 1)) return;
    __atomic_compare_exchange_n(&counters(slot)->generation, &generation, generation + 1, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
  }

  orrery_flow_counters* counters(uint32_t slot) { return flow_at(base_, shape_, slot); }

  // Null in a segment of version 1.
  orrery_qp_counters* qp_counters(uint32_t slot) { return shape_.qp_counters ? qp_at(base_, shape_, slot) : nullptr; }

  uint64_t agent_alive_ns() const {
    return load_relaxed(&static_cast<const orrery_segment_header*>(base_)->agent_alive_ns);
  }

 private:
  static bool take(orrery_ring_header* ring, uint32_t owner, uint32_t thread) {
    return __atomic_compare_exchange_n(&ring->owner, &owner, thread, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
  }
  orrery_segment_header* header() { return static_cast<orrery_segment_header*>(base_); }

  void* base_ = nullptr;
  SegmentShape shape_;
};

}  // namespace orrery::shm
