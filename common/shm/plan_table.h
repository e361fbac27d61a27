// The agent's half of a plan table: written under the seqlock, read-only for the process it is handed to.
// Owner: one thread. Not thread-safe.
#pragma once

#include <span>

#include "common/shm/layout.h"
#include "common/shm/memfd.h"

namespace orrery::shm {

struct PlanStamp {
  uint64_t term = 0;
  uint64_t revision = 0;
  uint64_t valid_until_ns = 0;  // CLOCK_MONOTONIC
  bool release_suspended = false;
};

class PlanTable {
 public:
  // `abi_version`: of the process that will read it; the layout is the same in all. Errors: kInvalidArgument (capacity
  // is 0 or above kMaxPlanEntries), kSystem.
  static Result<PlanTable> create(uint32_t capacity, uint32_t abi_version = ORRERY_ABI_VERSION);

  int fd() const { return memory_.fd(); }
  size_t bytes() const { return memory_.bytes(); }
  uint32_t capacity() const { return capacity_; }

  // Replaces the whole table. Errors: kExhausted (more entries than capacity; the table is unchanged).
  Status publish(std::span<const orrery_plan_entry> entries, const PlanStamp& stamp);
  // The same entries, a later end.
  void renew(uint64_t valid_until_ns, bool release_suspended);
  // No plan, at once.
  void revoke();

 private:
  PlanTable(SharedMemory memory, uint32_t capacity);
  template <typename Write>
  void locked(Write write);
  orrery_plan_header* header() const { return static_cast<orrery_plan_header*>(memory_.data()); }

  SharedMemory memory_;
  uint32_t capacity_ = 0;
};

}  // namespace orrery::shm
