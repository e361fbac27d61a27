// Arithmetic of the segment of segment_abi.h: where rings and flow counters lie, given the numbers the agent
// chooses. Freestanding (no libstdc++): also used inside training processes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/abi/plan_abi.h"
#include "common/abi/segment_abi.h"

namespace orrery::shm {

inline constexpr uint32_t kMaxRings = 4096;
inline constexpr uint32_t kMaxRingEvents = 1u << 20;
inline constexpr uint32_t kMaxFlowSlots = 65535;  // orrery_flow_event.slot is 16 bits wide
inline constexpr uint32_t kMaxPlanEntries = 65536;

struct SegmentShape {
  uint32_t ring_count = 64;
  uint32_t ring_events = 4096;  // a power of two
  uint32_t flow_slots = 4096;
  bool qp_counters = true;  // since version 2 of the ABI

  constexpr bool valid() const {
    return ring_count >= 1 && ring_count <= kMaxRings && ring_events >= 2 && ring_events <= kMaxRingEvents &&
           (ring_events & (ring_events - 1)) == 0 && flow_slots >= 1 && flow_slots <= kMaxFlowSlots &&
           total_bytes() <= UINT32_MAX;
  }
  constexpr uint64_t ring_bytes() const {
    return sizeof(orrery_ring_header) + uint64_t{ring_events} * sizeof(orrery_event);
  }
  constexpr uint64_t ring_offset(uint32_t ring) const { return sizeof(orrery_segment_header) + ring * ring_bytes(); }
  constexpr uint64_t flows_offset() const { return ring_offset(ring_count); }
  constexpr uint64_t qps_offset() const {
    return qp_counters ? flows_offset() + uint64_t{flow_slots} * sizeof(orrery_flow_counters) : 0;
  }
  constexpr uint64_t total_bytes() const {
    return flows_offset() +
           uint64_t{flow_slots} * (sizeof(orrery_flow_counters) + (qp_counters ? sizeof(orrery_qp_counters) : 0));
  }
  constexpr uint32_t abi_version() const { return qp_counters ? 2 : 1; }
};

constexpr uint64_t plan_table_bytes(uint32_t capacity) {
  return sizeof(orrery_plan_header) + uint64_t{capacity} * sizeof(orrery_plan_entry);
}

inline orrery_ring_header* ring_at(void* base, const SegmentShape& shape, uint32_t ring) {
  return reinterpret_cast<orrery_ring_header*>(static_cast<char*>(base) + shape.ring_offset(ring));
}
inline orrery_event* ring_events(orrery_ring_header* ring) {
  return reinterpret_cast<orrery_event*>(ring + 1);
}
inline orrery_flow_counters* flow_at(void* base, const SegmentShape& shape, uint32_t slot) {
  return reinterpret_cast<orrery_flow_counters*>(static_cast<char*>(base) + shape.flows_offset()) + slot;
}
// Precondition: shape.qp_counters.
inline orrery_qp_counters* qp_at(void* base, const SegmentShape& shape, uint32_t slot) {
  return reinterpret_cast<orrery_qp_counters*>(static_cast<char*>(base) + shape.qps_offset()) + slot;
}
inline orrery_plan_entry* plan_entries(orrery_plan_header* header) {
  return reinterpret_cast<orrery_plan_entry*>(header + 1);
}
inline const orrery_plan_entry* plan_entries(const orrery_plan_header* header) {
  return reinterpret_cast<const orrery_plan_entry*>(header + 1);
}

template <typename T>
inline T load_relaxed(const T* from) {
  return __atomic_load_n(from, __ATOMIC_RELAXED);
}
template <typename T>
inline void store_relaxed(T* to, T value) {
  __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

// Every shared word is accessed atomically, so the sanitizer, which does not model fences, has nothing to report.
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
inline void fence_acquire() {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
inline void fence_release() {
  __atomic_thread_fence(__ATOMIC_RELEASE);
}
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic pop
#endif

// Copies between shared and private memory word by word, so that a concurrent writer can tear the whole but never a
// word. `bytes` is a multiple of 8, both pointers are 8-byte aligned.
inline void copy_words(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<uint64_t*>(to);
  const auto* source = static_cast<const uint64_t*>(from);
  for (size_t i = 0; i < bytes / 8; ++i) store_relaxed(&target[i], load_relaxed(&source[i]));
}

}  // namespace orrery::shm
