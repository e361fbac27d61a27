#include "agent/preload/profiler.h"

#include <stdlib.h>

#include "agent/preload/attach.h"
#include "agent/preload/layers.h"
#include "agent/preload/profiler_abi.h"
#include "agent/preload/profiler_chain.h"
#include "agent/preload/profiler_comms.h"
#include "agent/preload/profiler_words.h"
#include "common/abi/attach_abi.h"

namespace orrery::preload::profiler {
namespace {

constexpr int kOurMask = kColl | kP2p;
constexpr uint64_t kHandleTag = 0x4f52525900000000ull;  // "ORRY": no address a program can have
constexpr uint64_t kHandleTagMask = 0xffffffff00000000ull;
constexpr uint64_t kHandleCaptured = 1;
constexpr uint64_t kHandlePlan = 2;
constexpr uint32_t kPlanGroups = 0x80000000u;  // apart from the numbers of ncclGroupStart
constexpr int kNcclOk = 0;                     // always: an error would turn the profiler off for everyone

// The kernel plan that this thread is telling of.
struct Plan {
  void* event;  // NCCL's handle for it
  uint32_t group;
  uint32_t calls;
  bool hidden;
};
__thread Plan plan __attribute__((tls_model("initial-exec")));
uint32_t last_group;

void* our_handle(bool is_plan, bool captured) {
  return reinterpret_cast<void*>(kHandleTag | (is_plan ? kHandlePlan : 0) | (captured ? kHandleCaptured : 0));
}
bool is_ours(const void* handle) {
  return (reinterpret_cast<uint64_t>(handle) & kHandleTagMask) == kHandleTag;
}
// Until 2.27 the parent is the plan, of which nothing is known.
bool is_replayed(const Context* context, void* parent) {
  if (context->version <= 4) return false;
  if (is_ours(parent)) return (reinterpret_cast<uint64_t>(parent) & kHandleCaptured) != 0;
  return is_marked_captured(parent);
}

// What a Coll, P2p, CollApi or P2pApi event says, of whatever version.
struct Call {
  const Function* function;
  size_t count;
  ncclDataType_t type;
  uint32_t peer = 0xffffffffu;
  uint8_t reduction = 255;
  uint64_t comm_hash = 0;
  uint64_t traffic_bytes = 0;

  uint64_t bytes() const { return count * nccl_type_bytes(type); }
};

bool reduces(const Function* function) {
  return function != nullptr && (function->op == ORRERY_OP_ALL_REDUCE || function->op == ORRERY_OP_REDUCE ||
                                 function->op == ORRERY_OP_REDUCE_SCATTER);
}

template <typename Part>
Call call_of(const Part& part) {
  Call call{.function = find_function(part.func), .count = part.count, .type = type_of(part.datatype)};
  if constexpr (requires { part.root; })
    if (call.function != nullptr && call.function->has_root) call.peer = static_cast<uint32_t>(part.root);
  if constexpr (requires { part.peer; }) call.peer = static_cast<uint32_t>(part.peer);
  if constexpr (requires { part.comm_hash; }) call.comm_hash = part.comm_hash;
  if constexpr (requires { part.traffic_bytes; }) call.traffic_bytes = part.traffic_bytes;
  if constexpr (requires { part.reduction; })
    if (reduces(call.function) && part.reduction < kNcclFirstCustomOp)
      call.reduction = static_cast<uint8_t>(part.reduction);
  return call;
}

// Versions 1 to 3 tell of a communicator only through its events. NCCL's count of what an all-gather or reduce-scatter
// moves is its bytes times the ranks (versions 1 and 2), which is the only word about their number.
void learn(Context* context, const Call& call, int rank) {
  if (context->version > 3 || context->comm != nullptr) return;
  if (rank >= 0) context->rank = static_cast<uint32_t>(rank);
  if (context->known_to_api) return;
  if (call.comm_hash != 0) context->nccl_hash = call.comm_hash;
  const bool tells = call.function != nullptr &&
                     (call.function->op == ORRERY_OP_ALL_GATHER || call.function->op == ORRERY_OP_REDUCE_SCATTER);
  if (tells && call.bytes() != 0 && call.traffic_bytes % call.bytes() == 0)
    context->nranks = static_cast<uint32_t>(call.traffic_bytes / call.bytes());
  announce(context);
}

void report(Comm* comm, const Call& call, uint32_t group, uint16_t flags) {
  const uint64_t now = now_ns();
  if ((flags & ORRERY_COLLECTIVE_CAPTURED) == 0) note_collective_start(comm, now);
  if (!attached()) return tick(now);
  const bool knows_flags = attachment.abi_version >= 2;
  if (!knows_flags && ((flags & ORRERY_COLLECTIVE_CAPTURED) != 0 || call.function->op > ORRERY_OP_SCATTER)) return;
  orrery_event event{};
  event.time_ns = now;
  event.type = ORRERY_EVENT_COLLECTIVE;
  event.collective = {.comm_id = comm->comm_id,
                      .bytes = call.bytes(),
                      .op = static_cast<orrery_u32>(call.function->op),
                      .peer = call.peer,
                      .group = group,
                      .datatype = static_cast<orrery_u8>(call.type),
                      .reduction = call.reduction,
                      .flags = static_cast<orrery_u16>(knows_flags ? flags : 0)};
  emit(event);
  tick(now);
}

uint32_t next_group() {
  return kPlanGroups | __atomic_add_fetch(&last_group, 1u, __ATOMIC_RELAXED);
}

// NCCL 2.30 may merge the broadcasts of a group, and tells nothing of the work then.
bool only_shows_as_api_call(const Call& call) {
  return call.function->op == ORRERY_OP_BROADCAST;
}

// Since 2.28: within the caller's API call, before anything is launched.
void see_api_call(Context* context, const Call& call, bool captured) {
  Thread& self = thread_state;
  if (self.has_withheld) {
    if (captured && attachment.abi_version >= 2) self.withheld.collective.flags |= ORRERY_COLLECTIVE_CAPTURED;
    report_withheld_slow();
    return;
  }
  if (context->known_to_api || call.function == nullptr || !(captured || only_shows_as_api_call(call))) return;
  Comm* comm = comm_of(context);
  if (comm == nullptr) return;
  report(comm, call, next_group(),
         static_cast<uint16_t>(ORRERY_COLLECTIVE_FROM_PROFILER | (captured ? ORRERY_COLLECTIVE_CAPTURED : 0)));
}

// The work of a call is about to be handed to the proxy: its packets follow.
void see_work(Context* context, const Call& call, int rank, bool replayed) {
  learn(context, call, rank);
  if (call.function == nullptr) return;
  if (context->version >= 5 && !replayed && only_shows_as_api_call(call)) return;
  Comm* comm = comm_of(context);
  if (comm == nullptr) return;
  if (context->known_to_api && !replayed)
    if (context->version >= 5 || call.bytes() == 0 || take_credit(context, now_ns())) return;
  if (context->known_to_api) replayed = true;
  ++plan.calls;
  plan.hidden = !context->known_to_api;
  report(comm, call, plan.group != 0 ? plan.group : next_group(),
         static_cast<uint16_t>(ORRERY_COLLECTIVE_FROM_PROFILER | (replayed ? ORRERY_COLLECTIVE_REPLAY : 0)));
}

void start_plan() {
  plan = {nullptr, next_group(), 0, false};
}

void end_plan() {
  if (plan.calls > 1 && plan.hidden && attached()) {
    orrery_event event{};
    event.time_ns = now_ns();
    event.type = ORRERY_EVENT_GROUP_END;
    event.group = {.group = plan.group, .calls = plan.calls};
    emit(event);
  }
  plan = {};
}

// What we make of an event. True when NCCL must have a handle for it (it makes no children without).
template <typename Descriptor>
bool see(Context* context, const Descriptor& descriptor, bool* captured) {
  const bool heard = context != nullptr && arm() != kOff;
  switch (descriptor.type) {
    case kGroup:
      start_plan();
      return true;
    case kColl:
      if (heard) see_work(context, call_of(descriptor.coll), descriptor.rank, is_replayed(context, descriptor.parent));
      return true;
    case kP2p:
      if (heard) see_work(context, call_of(descriptor.p2p), descriptor.rank, is_replayed(context, descriptor.parent));
      return true;
  }
  if constexpr (requires { descriptor.coll_api; }) {
    switch (descriptor.type) {
      case kGroupApi:
        *captured = descriptor.group_api.graph_captured;
        return true;
      case kCollApi:
        *captured = descriptor.coll_api.graph_captured;
        if (heard) see_api_call(context, call_of(descriptor.coll_api), *captured);
        return true;
      case kP2pApi:
        *captured = descriptor.p2p_api.graph_captured;
        if (heard) see_api_call(context, call_of(descriptor.p2p_api), *captured);
        return true;
    }
  }
  return false;
}

// For the time of the plug-in's call, parents of ours read null, as they would without us.
template <typename Descriptor>
class TheirParents {
 public:
  explicit TheirParents(Descriptor* descriptor) : descriptor_(descriptor), parent_(descriptor->parent) {
    if (is_ours(parent_)) descriptor->parent = nullptr;
    if constexpr (requires { descriptor->coll.parent_group; }) {
      group_ = descriptor->type == kColl  ? &descriptor->coll.parent_group
               : descriptor->type == kP2p ? &descriptor->p2p.parent_group
                                          : nullptr;
      if (group_ == nullptr) return;
      parent_group_ = *group_;
      if (is_ours(parent_group_)) *group_ = nullptr;
    }
  }
  ~TheirParents() {
    descriptor_->parent = parent_;
    if (group_ != nullptr) *group_ = parent_group_;
  }

 private:
  Descriptor* descriptor_;
  void* parent_;
  void** group_ = nullptr;
  void* parent_group_ = nullptr;
};

// Until 2.27 NCCL tells of no call whose plan has no handle.
template <typename Descriptor>
bool has_their_group(int version, const Descriptor& descriptor) {
  const bool needs = version <= 4 && (descriptor.type == kColl || descriptor.type == kP2p);
  return !needs || (descriptor.parent != nullptr && !is_ours(descriptor.parent));
}

void follow_mask(Context* context) {
  const int asked = chained_mask();
  if (asked == context->mask_seen || context->mask == nullptr) return;
  context->mask_seen = asked;
  __atomic_store_n(context->mask, (stands_down() || arm() == kOff ? 0 : kOurMask) | asked, __ATOMIC_RELAXED);
}

// Without a context (NCCL has one for every communicator, but who knows) as the plug-in would be called alone. A
// context that is not ours is another process's (PXN), and so is no context of the plug-in's.
template <int kVersion, typename Descriptor>
void* start_chained(const Chain& chain, Context* context, Descriptor* descriptor) {
  int asked = chained_mask();
  void* their_context = nullptr;
  if (context != nullptr) {
    if (!context->chained) return nullptr;
    follow_mask(context);
    asked = context->mask_seen;
    their_context = context->chained_context;
  }
  if (!is_wanted(kVersion, descriptor->type, asked) || !has_their_group(kVersion, *descriptor)) return nullptr;
  void* theirs = nullptr;
  const TheirParents<Descriptor> parents(descriptor);
  chained_start(chain, kVersion, their_context, &theirs, descriptor);
  return theirs;
}

template <int kVersion>
int start_event(void* raw_context, void** event, typename Types<kVersion>::Descriptor* descriptor) {
  if (event == nullptr) return kNcclOk;
  *event = nullptr;
  if (descriptor == nullptr) return kNcclOk;
  Context* context = find_context(raw_context);
  bool captured = false;
  const bool needed = see(context, *descriptor, &captured);
  const Chain& chain = current_chain(kVersion);
  void* theirs = nullptr;
  if (chain.version != 0 && (context != nullptr || raw_context == nullptr))
    theirs = start_chained<kVersion>(chain, context, descriptor);
  if (theirs != nullptr && (descriptor->type == kCollApi || descriptor->type == kP2pApi))
    mark_captured(theirs, captured);
  const bool is_plan = descriptor->type == kGroup;
  *event = theirs != nullptr || !needed ? theirs : our_handle(is_plan, captured);
  if (is_plan) plan.event = *event;
  return kNcclOk;
}

template <int kVersion>
int stop_event(void* event) {
  if (event == nullptr) return kNcclOk;
  if (event == plan.event) end_plan();
  const Chain& chain = current_chain(kVersion);
  if (!is_ours(event) && chain.version != 0) chained_stop(chain, event);
  return kNcclOk;
}

template <int kVersion>
int record_event_state(void* event, int state, typename Types<kVersion>::StateArguments* arguments) {
  const Chain& chain = current_chain(kVersion);
  if (event != nullptr && !is_ours(event) && chain.version != 0)
    chained_record(chain, kVersion, event, state, arguments);
  return kNcclOk;
}

void start_context(Context* context, const InitArguments& arguments) {
  const Chain chain = chain_for(context->version);
  if (chain.version != 0) context->chained = chained_init(chain, &context->chained_context, arguments);
  if (context->chained) context->mask_seen = chained_mask();
}

void watch(Context* context, const InitArguments& arguments) {
  set_layer(ORRERY_LAYER_PROFILER, true);
  identify(context, arguments.comm_hash, static_cast<uint32_t>(arguments.rank),
           static_cast<uint32_t>(arguments.nranks > 0 ? arguments.nranks : 0));
  if (context->known_to_api) return;  // the wrapper has seen to it
  attach_for_communicator();
  announce(context);
}

int init(int version, void** raw_context, int* mask, const InitArguments& arguments) {
  Context* context = raw_context != nullptr ? new_context(version) : nullptr;
  if (raw_context != nullptr) *raw_context = context;
  const bool on = !stands_down() && become_interested();
  if (context != nullptr) {
    start_context(context, arguments);
    context->mask = mask;
    if (on) watch(context, arguments);
  }
  const int asked = context != nullptr ? context->mask_seen : 0;
  if (mask != nullptr) __atomic_store_n(mask, (on ? kOurMask : 0) | asked, __ATOMIC_RELAXED);
  return kNcclOk;
}

template <int kVersion>
int init_unnamed(void** context, int* mask) {
  return init(kVersion, context, mask, {});
}
int init_4(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes, int nranks, int rank,
           Logger log) {
  return init(4, context, mask, {comm_hash, comm_name, nodes, nranks, rank, log});
}
template <int kVersion>
int init_named(void** context, uint64_t comm_hash, int* mask, const char* comm_name, int nodes, int nranks, int rank,
               Logger log) {
  return init(kVersion, context, mask, {comm_hash, comm_name, nodes, nranks, rank, log});
}

template <int kVersion>
int finalize(void* raw_context) {
  Context* context = find_context(raw_context);
  if (context == nullptr) return kNcclOk;
  if (context->chained) chained_finalize(current_chain(kVersion), context->chained_context);
  forget(context);
  free_context(context);
  return kNcclOk;
}

template <int kVersion>
constexpr Table<kVersion> table_of(typename InitOf<kVersion>::Type* init) {
  return {"Orrery",          init, start_event<kVersion>, stop_event<kVersion>, record_event_state<kVersion>,
          finalize<kVersion>};
}

}  // namespace
}  // namespace orrery::preload::profiler

using namespace orrery::preload::profiler;

extern "C" {
__attribute__((visibility("default"))) constinit Table<1> ncclProfiler_v1 = table_of<1>(init_unnamed<1>);
__attribute__((visibility("default"))) constinit Table<2> ncclProfiler_v2 = table_of<2>(init_unnamed<2>);
__attribute__((visibility("default"))) constinit Table<3> ncclProfiler_v3 = table_of<3>(init_unnamed<3>);
__attribute__((visibility("default"))) constinit Table<4> ncclProfiler_v4 = table_of<4>(init_4);
__attribute__((visibility("default"))) constinit Table<5> ncclProfiler_v5 = table_of<5>(init_named<5>);
__attribute__((visibility("default"))) constinit Table<6> ncclProfiler_v6 = table_of<6>(init_named<6>);
}

namespace orrery::preload::profiler {

void* own_table(int version) {
  void* const tables[] = {nullptr,          &ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
                          &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6};
  return tables[version];
}

bool stands_down() {
  static uint32_t known = 0;  // 1: no, 2: yes
  uint32_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == 0) [[unlikely]] {
    const char* value = getenv("ORRERY_PROFILER");
    answer = value != nullptr && value[0] == '0' && value[1] == '\0' ? 2 : 1;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == 2;
}

}  // namespace orrery::preload::profiler
