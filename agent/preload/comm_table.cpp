#include "agent/preload/comm_table.h"

#include "agent/preload/process.h"

namespace orrery::preload {
namespace {

constexpr uint32_t kComms = 1024;  // a power of two
constexpr uint32_t kProbes = 64;

void* const kRetired = reinterpret_cast<void*>(1);  // was used: probing goes on behind it
void* const kClaimed = reinterpret_cast<void*>(2);  // being filled

Comm comms[kComms];
uint64_t last_start_of_any = 0;

uint32_t home_of(void* handle) {
  const auto key = reinterpret_cast<uint64_t>(handle) >> 4;
  return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15ull) >> 32) & (kComms - 1);
}

void* handle_of(const Comm& comm) {
  return __atomic_load_n(&comm.handle, __ATOMIC_ACQUIRE);
}
bool in_use(void* handle) {
  return reinterpret_cast<uintptr_t>(handle) > reinterpret_cast<uintptr_t>(kClaimed);
}

bool is(const Comm& comm, uint64_t comm_id) {
  return in_use(handle_of(comm)) && comm.comm_id == comm_id;
}

void emit_comm(uint32_t type, uint64_t comm_id, uint64_t parent_id, uint32_t rank, uint32_t nranks) {
  orrery_event event{};
  event.time_ns = now_ns();
  event.type = type;
  event.comm = {.comm_id = comm_id, .parent_id = parent_id, .rank = rank, .nranks = nranks};
  emit(event);
}

}  // namespace

Comm* find_comm(void* handle) {
  const uint32_t home = home_of(handle);
  for (uint32_t i = 0; i < kProbes; ++i) {
    Comm& comm = comms[(home + i) & (kComms - 1)];
    void* seen = handle_of(comm);
    if (seen == handle) return in_use(seen) ? &comm : nullptr;
    if (seen == nullptr) return nullptr;
  }
  return nullptr;
}

Comm* add_comm(void* handle, const Comm& values) {
  const uint32_t home = home_of(handle);
  for (uint32_t i = 0; i < kProbes; ++i) {
    Comm& comm = comms[(home + i) & (kComms - 1)];
    void* seen = handle_of(comm);
    if (seen != nullptr && seen != kRetired) continue;
    if (!__atomic_compare_exchange_n(&comm.handle, &seen, kClaimed, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue;
    comm.comm_id = values.comm_id;
    comm.last_start_ns = 0;
    comm.rank = values.rank;
    comm.nranks = values.nranks;
    comm.announced = values.announced;
    comm.copy = values.copy;
    comm.profiled = values.profiled;
    comm.parent_id = values.parent_id;
    comm.nccl = values.nccl;
    comm.children = comm.device_traffic = comm.same_excluded = 0;
    comm.last_excluded = 0;
    __atomic_store_n(&comm.handle, handle, __ATOMIC_RELEASE);
    fence_announcement();
    return &comm;
  }
  return nullptr;
}

bool retire_comm(void* handle, Comm* values) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return false;
  *values = *comm;
  return __atomic_compare_exchange_n(&comm->handle, &handle, kRetired, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

Comm* only_unprofiled_comm(uint32_t rank, uint32_t nranks) {
  Comm* found = nullptr;
  for (Comm& comm : comms) {
    if (!in_use(handle_of(comm)) || comm.profiled != 0 || comm.rank != rank || comm.nranks == 0 ||
        (nranks != 0 && comm.nranks != nranks))
      continue;
    if (found != nullptr) return nullptr;
    found = &comm;
  }
  return found;
}

uint64_t last_collective_start(uint64_t comm_id, const Comm** where) {
  if (comm_id == 0) return __atomic_load_n(&last_start_of_any, __ATOMIC_RELAXED);
  if (*where == nullptr || !is(**where, comm_id)) {
    *where = nullptr;
    for (const Comm& comm : comms)
      if (is(comm, comm_id)) *where = &comm;
  }
  return *where != nullptr ? __atomic_load_n(&(*where)->last_start_ns, __ATOMIC_RELAXED) : 0;
}

void note_collective_start(Comm* comm, uint64_t now) {
  __atomic_store_n(&comm->last_start_ns, now, __ATOMIC_RELAXED);
  __atomic_store_n(&last_start_of_any, now, __ATOMIC_RELAXED);
}

void emit_comm_init(uint64_t comm_id, uint64_t parent_id, uint32_t rank, uint32_t nranks) {
  emit_comm(ORRERY_EVENT_COMM_INIT, comm_id, parent_id, rank, nranks);
}

void emit_comm_ready(const Comm& comm) {
  emit_comm(ORRERY_EVENT_COMM_READY, comm.comm_id, comm.parent_id, comm.rank, comm.nranks);
}

void emit_comm_gone(uint64_t comm_id, uint64_t parent_id, uint32_t rank, uint32_t nranks) {
  emit_comm(ORRERY_EVENT_COMM_GONE, comm_id, parent_id, rank, nranks);
}

void forget_comms_of_parent() {
  for (Comm& comm : comms)
    if (handle_of(comm) != nullptr) comm = Comm{};
  last_start_of_any = 0;
}

void emit_device_traffic(const Comm& comm) {
  if (attachment.abi_version >= 2)
    emit_comm(ORRERY_EVENT_DEVICE_TRAFFIC, comm.comm_id, comm.parent_id, comm.rank, comm.nranks);
}

bool announce_all_comms() {
  bool any = false;
  const uint32_t current = generation();
  for (Comm& comm : comms) {
    if (!in_use(handle_of(comm)) || comm.nranks == 0 || comm.comm_id == 0) continue;
    if (__atomic_exchange_n(&comm.announced, current, __ATOMIC_RELAXED) == current) continue;
    emit_comm_init(comm.comm_id, comm.parent_id, comm.rank, comm.nranks);
    emit_comm_ready(comm);
    if (comm.device_traffic != 0) emit_device_traffic(comm);
    any = true;
  }
  return any;
}

}  // namespace orrery::preload
