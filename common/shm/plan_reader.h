// The process's half of a plan table: finds the entry of a flow under the seqlock. Freestanding; bounded work; any
// thread.
//
// "No entry" is always a correct answer: it is given when the table is torn, expired, being written, or not understood.
#pragma once

#include <string.h>

#include "common/shm/layout.h"

namespace orrery::shm {

struct PlanQuery {
  uint8_t local_address[16];  // all zero: not known yet
  uint8_t remote_address[16];
  uint16_t ordinal;
  uint8_t protocol;
};

struct PlanAnswer {
  orrery_plan_entry entry;
  uint32_t index;
  uint32_t sequence;  // changes whenever the table may have changed
  bool release_suspended;
};

class PlanReader {
 public:
  bool open(const void* base, size_t bytes) {
    const auto* header = static_cast<const orrery_plan_header*>(base);
    if (bytes < sizeof(*header) || header->magic != ORRERY_PLAN_MAGIC || header->abi_version < ORRERY_ABI_OLDEST ||
        header->abi_version > ORRERY_ABI_VERSION)
      return false;
    const uint32_t capacity = header->capacity;
    if (capacity == 0 || capacity > kMaxPlanEntries || plan_table_bytes(capacity) > bytes) return false;
    header_ = header;
    capacity_ = capacity;
    return true;
  }

  uint32_t sequence() const { return load_relaxed(&header_->sequence); }

  bool lease_valid(uint64_t now_ns) const { return now_ns < load_relaxed(&header_->valid_until_ns); }

  // An entry for the exact ordinal is preferred to one for all.
  bool find(const PlanQuery& query, uint64_t now_ns, PlanAnswer* answer) const {
    for (int attempt = 0; attempt < ORRERY_PLAN_READ_TRIES; ++attempt) {
      const uint32_t before = __atomic_load_n(&header_->sequence, __ATOMIC_ACQUIRE);
      if (before & 1) continue;
      const bool found = lease_valid(now_ns) && scan(query, answer);
      answer->release_suspended = load_relaxed(&header_->release_suspended) != 0;
      answer->sequence = before;
      fence_acquire();
      if (load_relaxed(&header_->sequence) == before) return found && plausible(answer->entry);
    }
    return false;
  }

 private:
  static bool same(const uint8_t* shared, const uint8_t* own) {
    uint64_t theirs[2], ours[2];
    copy_words(theirs, shared, 16);
    memcpy(ours, own, 16);
    return theirs[0] == ours[0] && theirs[1] == ours[1];
  }
  static bool is_any(const uint8_t* address) {
    uint64_t words[2];
    memcpy(words, address, 16);
    return words[0] == 0 && words[1] == 0;
  }

  bool scan(const PlanQuery& query, PlanAnswer* answer) const {
    const orrery_plan_entry* entries = plan_entries(header_);
    uint32_t count = load_relaxed(&header_->count);
    if (count > capacity_) count = capacity_;
    bool found = false;
    for (uint32_t i = 0; i < count; ++i) {
      if (!same(entries[i].remote_address, query.remote_address)) continue;
      orrery_plan_entry entry;
      copy_words(&entry, &entries[i], sizeof(entry));
      if (entry.protocol != query.protocol) continue;
      if (!is_any(entry.local_address) && !is_any(query.local_address) &&
          memcmp(entry.local_address, query.local_address, 16) != 0)
        continue;
      const bool exact = entry.ordinal == query.ordinal;
      if (!exact && (found || entry.ordinal != ORRERY_PLAN_ANY_ORDINAL)) continue;
      answer->entry = entry;
      answer->index = i;
      if (exact) return true;
      found = true;
    }
    return found;
  }

  static bool plausible(const orrery_plan_entry& entry) {
    if (entry.hop_count > ORRERY_PLAN_MAX_HOPS || entry.src_port_first > entry.src_port_last) return false;
    for (uint32_t i = 0; i < entry.hop_count; ++i)
      if (entry.hops[i].member >= entry.hops[i].group_size) return false;
    return true;
  }

  const orrery_plan_header* header_ = nullptr;
  uint32_t capacity_ = 0;
};

}  // namespace orrery::shm
