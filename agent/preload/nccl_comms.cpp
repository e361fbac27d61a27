// What the agent learns of communicators: made, split, shrunk, grown, ended. Never hot.
#include "agent/preload/nccl_layer.h"
#include "agent/preload/nccl_pending.h"
#include "agent/preload/profiler_comms.h"
#include "common/abi/comm_id_abi.h"

namespace orrery::preload {
namespace {

constexpr int kMaxDevices = 1024;

// Tells the agent before NCCL does anything. Returns the attachment that was told, 0 for none.
uint32_t announce(const Comm& facts) {
  if (facts.nranks == 0 || facts.comm_id == 0 || !attached()) return 0;
  const uint32_t told = generation();
  emit_comm_init(facts.comm_id, facts.parent_id, facts.rank, facts.nranks);
  ring_doorbell();
  return told;
}

void retract(const Comm& facts) {
  if (facts.announced != 0 && attached() && facts.announced == generation())
    emit_comm_gone(facts.comm_id, facts.parent_id, facts.rank, facts.nranks);
}

bool ask_nccl(ncclComm_t handle, NcclCopy& copy, Comm& facts) {
  auto* count = copy.get<kCommCount>();
  auto* user_rank = copy.get<kCommUserRank>();
  int nranks = 0, rank = 0;
  if (count == nullptr || user_rank == nullptr || count(handle, &nranks) != kNcclSuccess ||
      user_rank(handle, &rank) != kNcclSuccess || nranks < 1)
    return false;
  facts.nranks = static_cast<uint32_t>(nranks);
  facts.rank = static_cast<uint32_t>(rank);
  return true;
}

void record(ncclComm_t handle, Comm facts, uint32_t ticket) {
  Comm known;
  retire_comm(handle, &known);  // a communicator that ended in a way we did not see
  if (facts.nranks == 0) ask_nccl(handle, nccl_copies[facts.copy], facts);
  Comm* comm = add_comm(handle, facts);
  if (comm != nullptr) expected_is_known(ticket, comm);
  if (comm == nullptr || comm->nranks == 0 || comm->comm_id == 0 || !attached()) return;
  if (facts.announced == generation())
    emit_comm_ready(*comm);
  else if (announce_all_comms())
    ring_doorbell();
}

void take_answer(ncclResult_t result, const PendingComm& made) {
  if (!succeeded(result)) return retract(made.facts);
  if (made.place == nullptr) return;
  if (*made.place != nullptr) return record(*made.place, made.facts, made.ticket);
  if (result != kNcclInProgress || made.parent == nullptr) return;
  PendingComm waiting = made;
  waiting.owner = made.parent;
  add_pending_comm(waiting);
}

// After NCCL has answered, or the group has ended, or the parent is ready.
void settle(ncclResult_t result, const PendingComm& made) {
  take_answer(result, made);
  if (result != kNcclInProgress) stop_expecting(made.ticket);
}

// Common course of every function that makes one communicator.
template <typename Make>
ncclResult_t make_comm(NcclCopy& copy, PendingComm made, Make make) {
  NcclCall call(copy);
  if (!call.outermost() || !become_interested()) return make();
  attach_for_communicator();
  made.copy = made.facts.copy = copy.number();
  made.facts.announced = announce(made.facts);
  made.ticket = expect_profiled(made.facts);
  const bool in_group = thread_state.groups[made.copy].level > 0;
  void* before = in_group && made.place != nullptr ? *made.place : nullptr;
  const ncclResult_t result = make();
  if (!in_group || !succeeded(result)) {
    settle(result, made);
    return result;
  }
  if (made.place != nullptr && *made.place != nullptr && *made.place != before) {
    record(*made.place, made.facts, made.ticket);
    made.place = nullptr;  // the program need not keep it until the group ends
  }
  made.owner = &thread_state;
  add_pending_comm(made);
  return result;
}

template <typename Make>
ncclResult_t make_unseen(NcclCopy& copy, Make make) {
  NcclCall call(copy);
  return make();
}

// Null when the child is none of the application's, or the parent unknown.
Comm* find_parent(ncclComm_t handle, ncclComm_t* child) {
  return thread_state.depth == 0 && child != nullptr ? find_comm(handle) : nullptr;
}

// A child of a communicator that has no identity has none either.
PendingComm child_of(Comm& parent, ncclComm_t parent_handle, ncclComm_t* place) {
  PendingComm made{};
  made.place = place;
  made.parent = parent_handle;
  made.facts.parent_id = parent.comm_id;
  return made;
}

PendingComm split_from(Comm& parent, ncclComm_t parent_handle, int colour, ncclComm_t* place) {
  PendingComm made = child_of(parent, parent_handle, place);
  const uint32_t index = __atomic_fetch_add(&parent.children, 1u, __ATOMIC_RELAXED);
  if (parent.comm_id != 0)
    made.facts.comm_id = orrery_child_comm_id(parent.comm_id, index, static_cast<uint32_t>(colour));
  made.facts.nccl = nccl_identity_of_child(parent.nccl, index + 1, colour);
  return made;
}

PendingComm shrunk_from(Comm& parent, ncclComm_t parent_handle, const int* excluded, int count, ncclComm_t* place) {
  PendingComm made = child_of(parent, parent_handle, place);
  if (excluded == nullptr) return made;  // NCCL is going to refuse it
  uint64_t set = 0;
  for (int i = 0; i < count; ++i) set += orrery_comm_id_of_excluded(static_cast<uint32_t>(excluded[i]));
  parent.same_excluded = set == parent.last_excluded ? parent.same_excluded + 1 : 0;
  parent.last_excluded = set;
  if (parent.comm_id != 0) made.facts.comm_id = orrery_shrunk_comm_id(parent.comm_id, set, parent.same_excluded);
  made.facts.nccl = nccl_identity_of_child(parent.nccl, 0, 0);
  return made;
}

uint64_t id_of(const ncclUniqueId* ids, size_t count) {
  return orrery_comm_id(reinterpret_cast<const orrery_u8*>(ids), count * sizeof(ncclUniqueId));
}

PendingComm from_ids(ncclComm_t* place, int nranks, const ncclUniqueId* ids, int id_count, int rank) {
  PendingComm made{};
  made.place = place;
  if (ids == nullptr || id_count < 1 || id_count > nranks) return made;  // NCCL is going to refuse it
  made.facts.comm_id = id_of(ids, static_cast<size_t>(id_count));
  made.facts.nccl = nccl_identity_of(ids[0]);
  made.facts.rank = static_cast<uint32_t>(rank);
  made.facts.nranks = static_cast<uint32_t>(nranks);
  return made;
}

// All ranks of ncclCommInitAll are here, so any number that no other process has will do.
uint64_t local_id() {
  static uint32_t calls = 0;
  const uint64_t words[] = {now_ns(), reinterpret_cast<uint64_t>(&calls), reinterpret_cast<uint64_t>(&thread_state),
                            __atomic_add_fetch(&calls, 1u, __ATOMIC_RELAXED)};
  return orrery_comm_id(reinterpret_cast<const orrery_u8*>(words), sizeof(words));
}

// A new rank holds the unique id, an old one the parent, and the old one that asked for the id both. The identity is
// that of the id's first word, which all can know (nccl_identity.h). Where an old rank can't, because the parent was
// made by ncclCommInitAll or before we were there, the communicator has no identity on this rank. parent_id is 0 on
// all ranks, because the new ones do not know it.
PendingComm grown_from(ncclComm_t parent_handle, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* place) {
  PendingComm made{};
  made.place = place;
  Comm* parent = parent_handle != nullptr ? find_comm(parent_handle) : nullptr;
  uint64_t magic = id != nullptr ? nccl_magic_of(*id) : 0;
  if (parent != nullptr) {
    const uint32_t number = __atomic_add_fetch(&parent->children, 1u, __ATOMIC_RELAXED);
    if (magic == 0) magic = nccl_grow_magic(parent->nccl, number);
  }
  made.facts.nccl = nccl_identity_of_grown(magic, nranks);
  made.facts.comm_id = magic != 0 ? orrery_grown_comm_id(magic, static_cast<uint32_t>(nranks)) : 0;
  made.facts.rank = parent != nullptr ? parent->rank : static_cast<uint32_t>(rank);
  made.facts.nranks =
      parent_handle == nullptr || (parent != nullptr && parent->nranks != 0) ? static_cast<uint32_t>(nranks) : 0;
  return made;
}

void end_comm(ncclComm_t handle, const NcclCall& call) {
  Comm comm;
  if (!call.outermost() || !retire_comm(handle, &comm)) return;
  if (comm.announced != 0 && attached()) emit_comm_gone(comm.comm_id, comm.parent_id, comm.rank, comm.nranks);
  take_pending_comms(handle, comm.copy, [](const PendingComm& made) {
    retract(made.facts);
    stop_expecting(made.ticket);
  });
}

}  // namespace

// A communicator that was still being made when its handle was first seen.
void complete(Comm* comm) {
  Comm answer{};
  if (!ask_nccl(comm->handle, nccl_copies[comm->copy], answer)) return;
  comm->rank = answer.rank;
  __atomic_store_n(&comm->nranks, answer.nranks, __ATOMIC_RELEASE);
  fence_announcement();
  if (attached() && announce_all_comms()) ring_doorbell();
}

void settle_group(NcclCopy& copy, ncclResult_t result) {
  take_pending_comms(&thread_state, copy.number(), [&](const PendingComm& made) { settle(result, made); });
}

ncclResult_t NcclBody<kCommInitRank>::run(NcclCopy& copy, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  auto* function = copy.get<kCommInitRank>();
  if (function == nullptr) return missing(kCommInitRank);
  return make_comm(copy, from_ids(comm, nranks, &id, 1, rank), [&] { return function(comm, nranks, id, rank); });
}

ncclResult_t NcclBody<kCommInitRankConfig>::run(NcclCopy& copy, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                                ncclConfig_t* config) {
  auto* function = copy.get<kCommInitRankConfig>();
  if (function == nullptr) return missing(kCommInitRankConfig);
  return make_comm(copy, from_ids(comm, nranks, &id, 1, rank),
                   [&] { return function(comm, nranks, id, rank, config); });
}

ncclResult_t NcclBody<kCommInitRankScalable>::run(NcclCopy& copy, ncclComm_t* comm, int nranks, int rank, int id_count,
                                                  ncclUniqueId* ids, ncclConfig_t* config) {
  auto* function = copy.get<kCommInitRankScalable>();
  if (function == nullptr) return missing(kCommInitRankScalable);
  return make_comm(copy, from_ids(comm, nranks, ids, id_count, rank),
                   [&] { return function(comm, nranks, rank, id_count, ids, config); });
}

ncclResult_t NcclBody<kCommInitAll>::run(NcclCopy& copy, ncclComm_t* comms, int devices, const int* device_list) {
  auto* function = copy.get<kCommInitAll>();
  if (function == nullptr) return missing(kCommInitAll);
  NcclCall call(copy);
  const bool plausible = comms != nullptr && devices >= 1 && devices <= kMaxDevices;  // else NCCL says no
  if (!call.outermost() || !plausible || !become_interested()) return function(comms, devices, device_list);
  attach_for_communicator();
  Comm facts{.comm_id = local_id(), .nranks = static_cast<uint32_t>(devices), .copy = copy.number()};
  const uint32_t told = attached() ? generation() : 0;
  for (int rank = 0; rank < devices && told != 0; ++rank) {
    facts.rank = static_cast<uint32_t>(rank);
    announce(facts);
  }
  uint32_t tickets[kMaxDevices]{};
  for (int rank = 0; rank < devices; ++rank) {
    facts.rank = static_cast<uint32_t>(rank);
    tickets[rank] = expect_profiled(facts);
  }
  const ncclResult_t result = function(comms, devices, device_list);
  facts.announced = told;
  for (int rank = 0; rank < devices; ++rank) {
    facts.rank = static_cast<uint32_t>(rank);
    if (!succeeded(result))
      retract(facts);
    else if (comms[rank] != nullptr)
      record(comms[rank], facts, tickets[rank]);
    stop_expecting(tickets[rank]);
  }
  return result;
}

ncclResult_t NcclBody<kCommSplit>::run(NcclCopy& copy, ncclComm_t comm, int colour, int key, ncclComm_t* child,
                                       ncclConfig_t* config) {
  auto* function = copy.get<kCommSplit>();
  if (function == nullptr) return missing(kCommSplit);
  const auto make = [&] { return function(comm, colour, key, child, config); };
  Comm* parent = find_parent(comm, child);
  return parent != nullptr ? make_comm(copy, split_from(*parent, comm, colour, child), make) : make_unseen(copy, make);
}

ncclResult_t NcclBody<kCommShrink>::run(NcclCopy& copy, ncclComm_t comm, int* excluded, int excluded_count,
                                        ncclComm_t* child, ncclConfig_t* config, int flags) {
  auto* function = copy.get<kCommShrink>();
  if (function == nullptr) return missing(kCommShrink);
  const auto make = [&] { return function(comm, excluded, excluded_count, child, config, flags); };
  Comm* parent = find_parent(comm, child);
  return parent != nullptr ? make_comm(copy, shrunk_from(*parent, comm, excluded, excluded_count, child), make)
                           : make_unseen(copy, make);
}

ncclResult_t NcclBody<kCommGrow>::run(NcclCopy& copy, ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank,
                                      ncclComm_t* grown, ncclConfig_t* config) {
  auto* function = copy.get<kCommGrow>();
  if (function == nullptr) return missing(kCommGrow);
  const auto make = [&] { return function(comm, nranks, id, rank, grown, config); };
  const bool ours = thread_state.depth == 0 && grown != nullptr && nranks > 0;
  return ours ? make_comm(copy, grown_from(comm, nranks, id, rank, grown), make) : make_unseen(copy, make);
}

ncclResult_t NcclBody<kCommGetUniqueId>::run(NcclCopy& copy, ncclComm_t comm, ncclUniqueId* id) {
  auto* function = copy.get<kCommGetUniqueId>();
  if (function == nullptr) return missing(kCommGetUniqueId);
  NcclCall call(copy);
  const ncclResult_t result = function(comm, id);
  const Comm* parent = call.outermost() && result == kNcclSuccess ? find_comm(comm) : nullptr;
  if (parent != nullptr && parent->nccl.magic != 0 &&
      nccl_grow_magic(parent->nccl, parent->children + 1) != nccl_magic_of(*id))
    say(kLogError, "this NCCL names grown communicators in another way: their ranks are not recognised as one");
  return result;
}

// Programs ask it until a non-blocking communicator, or the child it is being split into, is ready.
ncclResult_t NcclBody<kCommGetAsyncError>::run(NcclCopy& copy, ncclComm_t comm, ncclResult_t* error) {
  auto* function = copy.get<kCommGetAsyncError>();
  if (function == nullptr) return missing(kCommGetAsyncError);
  NcclCall call(copy);
  const ncclResult_t result = function(comm, error);
  if (!call.outermost() || result != kNcclSuccess || error == nullptr || *error == kNcclInProgress) return result;
  const ncclResult_t state = *error;
  take_pending_comms(comm, copy.number(), [&](const PendingComm& made) { settle(state, made); });
  Comm* known = state == kNcclSuccess ? find_comm(comm) : nullptr;
  if (known != nullptr && known->nranks == 0) complete(known);
  return result;
}

ncclResult_t NcclBody<kCommDestroy>::run(NcclCopy& copy, ncclComm_t comm) {
  auto* function = copy.get<kCommDestroy>();
  if (function == nullptr) return missing(kCommDestroy);
  NcclCall call(copy);
  end_comm(comm, call);
  return function(comm);
}

ncclResult_t NcclBody<kCommAbort>::run(NcclCopy& copy, ncclComm_t comm) {
  auto* function = copy.get<kCommAbort>();
  if (function == nullptr) return missing(kCommAbort);
  NcclCall call(copy);
  end_comm(comm, call);
  return function(comm);
}

ncclResult_t NcclBody<kDevCommCreate>::run(NcclCopy& copy, ncclComm_t comm, const void* requirements,
                                           void* device_comm) {
  auto* function = copy.get<kDevCommCreate>();
  if (function == nullptr) return missing(kDevCommCreate);
  NcclCall call(copy);
  const ncclResult_t result = function(comm, requirements, device_comm);
  Comm* known = call.outermost() && succeeded(result) ? find_comm(comm) : nullptr;
  if (known == nullptr || known->comm_id == 0) return result;
  const bool first = __atomic_exchange_n(&known->device_traffic, 1u, __ATOMIC_RELAXED) == 0;
  if (first && attached() && known->announced == generation()) emit_device_traffic(*known);
  return result;
}

}  // namespace orrery::preload
