#include "common/shm/plan_table.h"

#include <string>
#include <utility>

namespace orrery::shm {

PlanTable::PlanTable(SharedMemory memory, uint32_t capacity) : memory_(std::move(memory)), capacity_(capacity) {}

Result<PlanTable> PlanTable::create(uint32_t capacity, uint32_t abi_version) {
  if (capacity == 0 || capacity > kMaxPlanEntries)
    return Error{ErrorCode::kInvalidArgument, "plan table of " + std::to_string(capacity) + " entries: must be 1 to " +
                                                  std::to_string(kMaxPlanEntries)};
  ORRERY_ASSIGN(auto memory, SharedMemory::create("orrery-plan", plan_table_bytes(capacity), PeerAccess::kReadOnly));
  PlanTable table(std::move(memory), capacity);
  table.header()->magic = ORRERY_PLAN_MAGIC;
  table.header()->abi_version = abi_version;
  table.header()->capacity = capacity;
  return table;
}

template <typename Write>
void PlanTable::locked(Write write) {
  const uint32_t sequence = load_relaxed(&header()->sequence);
  store_relaxed(&header()->sequence, sequence + 1);
  fence_release();
  write();
  __atomic_store_n(&header()->sequence, sequence + 2, __ATOMIC_RELEASE);
}

Status PlanTable::publish(std::span<const orrery_plan_entry> entries, const PlanStamp& stamp) {
  if (entries.size() > capacity_)
    return Error{ErrorCode::kExhausted, "a plan of " + std::to_string(entries.size()) +
                                            " entries does not fit a table of " + std::to_string(capacity_)};
  locked([&] {
    copy_words(plan_entries(header()), entries.data(), entries.size_bytes());
    store_relaxed(&header()->count, static_cast<uint32_t>(entries.size()));
    store_relaxed(&header()->term, stamp.term);
    store_relaxed(&header()->revision, stamp.revision);
    store_relaxed(&header()->valid_until_ns, stamp.valid_until_ns);
    store_relaxed(&header()->release_suspended, uint64_t{stamp.release_suspended});
  });
  return {};
}

void PlanTable::renew(uint64_t valid_until_ns, bool release_suspended) {
  locked([&] {
    store_relaxed(&header()->valid_until_ns, valid_until_ns);
    store_relaxed(&header()->release_suspended, uint64_t{release_suspended});
  });
}

void PlanTable::revoke() {
  locked([&] {
    store_relaxed(&header()->count, 0u);
    store_relaxed(&header()->valid_until_ns, uint64_t{0});
  });
}

}  // namespace orrery::shm
