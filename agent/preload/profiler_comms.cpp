#include "agent/preload/profiler_comms.h"

#include "agent/preload/attach.h"
#include "common/abi/comm_id_abi.h"

namespace orrery::preload {
namespace {

using profiler::Context;

constexpr uint32_t kContexts = 1024;
constexpr uint32_t kExpected = 256;  // a power of two; the oldest gives way
constexpr uint32_t kMaxSearches = 16;
constexpr uint64_t kExpectationNs = 300'000'000'000;  // non-blocking: init may come long after the call
constexpr uint64_t kCreditNs = 10'000'000'000;
constexpr uint64_t kHashTag = 0x6e63636c68617368ull;  // "ncclhash": keeps these ids apart from those of unique ids

Context contexts[kContexts];
uint32_t taken[kContexts];  // 1: someone's. Not within the context, which is cleared as a whole once it is taken

enum State : uint32_t { kNone = 0, kWaiting = 1, kClaimed = 2 };
struct Expectation {
  uint32_t ticket;
  State state;
  const void* thread;
  uint64_t since_ns;
  uint32_t rank, nranks;
  uint64_t nccl_hash;  // as predicted, 0: unknown
  Context* context;    // claimed
  Comm* comm;          // known
};
Expectation expected[kExpected];
uint32_t last_ticket;
uint32_t busy;

// Held for a few hundred instructions, when a communicator is made or freed and never else. A forked child may inherit
// it from a thread that it has not: then it is taken after a while.
class Lock {
 public:
  Lock() {
    for (uint32_t tries = 0; tries < 1u << 24 && __atomic_exchange_n(&busy, 1u, __ATOMIC_ACQUIRE) != 0; ++tries) {
    }
  }
  ~Lock() { __atomic_store_n(&busy, 0u, __ATOMIC_RELEASE); }
};

Expectation* find_expected(uint32_t ticket) {
  Expectation& entry = expected[ticket & (kExpected - 1)];
  return ticket != 0 && entry.ticket == ticket && entry.state != kNone ? &entry : nullptr;
}

uint32_t number_of(const Context* context) {
  return static_cast<uint32_t>(context - contexts) + 1;
}

void link(Context* context, Comm* comm) {
  uint32_t none = 0;
  if (!__atomic_compare_exchange_n(&comm->profiled, &none, number_of(context), false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED))
    return;
  context->handle = comm->handle;
  __atomic_store_n(&context->comm, comm, __ATOMIC_RELEASE);
}

bool fits(const Expectation& entry, const Context& context, uint64_t now) {
  if (entry.state != kWaiting || now - entry.since_ns > kExpectationNs) return false;
  if (context.version < 4) return true;
  return entry.nranks == 0 || (entry.nranks == context.nranks && entry.rank == context.rank);
}

// Also counts the candidates.
Expectation* choose_expected(const Context& context, uint32_t* candidates) {
  const uint64_t now = now_ns();
  Expectation *any = nullptr, *own = nullptr;
  uint32_t owns = 0;
  *candidates = 0;
  for (Expectation& entry : expected) {
    if (!fits(entry, context, now)) continue;
    ++*candidates;
    if (entry.nccl_hash != 0 && entry.nccl_hash == context.nccl_hash) return &entry;
    any = &entry;
    if (thread_state.depth == 0 || entry.thread != &thread_state) continue;
    ++owns;
    own = &entry;
  }
  if (owns == 1) return own;
  return *candidates == 1 ? any : nullptr;
}

uint64_t id_of_hash(uint64_t nccl_hash) {
  const uint64_t id = orrery_comm_id_round(orrery_comm_id_round(kHashTag, nccl_hash), kHashTag);
  return id != 0 ? id : 1;
}

bool is_current(const Context* context) {
  return context->comm != nullptr && context->comm->comm_id != 0 &&
         __atomic_load_n(&context->comm->handle, __ATOMIC_ACQUIRE) == context->handle;
}

// The only communicator of the API's that this context can be.
void search(Context* context) {
  if (context->searches >= kMaxSearches) return;
  ++context->searches;
  if (Comm* comm = only_unprofiled_comm(context->rank, context->nranks)) link(context, comm);
}

}  // namespace

uint32_t expect_profiled(const Comm& facts) {
  Lock lock;
  if (++last_ticket == 0) ++last_ticket;
  expected[last_ticket & (kExpected - 1)] = {.ticket = last_ticket,
                                             .state = kWaiting,
                                             .thread = &thread_state,
                                             .since_ns = now_ns(),
                                             .rank = facts.rank,
                                             .nranks = facts.nranks,
                                             .nccl_hash = facts.nccl.hash,
                                             .context = nullptr,
                                             .comm = nullptr};
  return last_ticket;
}

void expected_is_known(uint32_t ticket, Comm* comm) {
  Lock lock;
  Expectation* entry = find_expected(ticket);
  if (entry == nullptr) return;
  entry->comm = comm;
  if (entry->state != kClaimed) return;
  link(entry->context, comm);
  entry->state = kNone;
}

void stop_expecting(uint32_t ticket) {
  if (ticket == 0) return;
  Lock lock;
  if (Expectation* entry = find_expected(ticket)) entry->state = kNone;
}

void profiled_call(const Comm& comm, orrery_event& event) {
  Context& context = contexts[(comm.profiled - 1) & (kContexts - 1)];
  Thread& self = thread_state;
  if (context.version >= 5) {
    self.withheld = event;
    self.has_withheld = true;
    return;
  }
  if (event.collective.bytes != 0 && comm.nranks > 1) {  // else NCCL makes no event
    __atomic_fetch_add(&context.credits, 1u, __ATOMIC_RELAXED);
    __atomic_store_n(&context.last_credit_ns, event.time_ns, __ATOMIC_RELAXED);
  }
  emit(event);
}

void report_withheld_slow() {
  Thread& self = thread_state;
  self.has_withheld = false;
  if (attached()) emit(self.withheld);
}

namespace profiler {

Context* new_context(int version) {
  for (uint32_t i = 0; i < kContexts; ++i) {
    if (__atomic_load_n(&taken[i], __ATOMIC_RELAXED) != 0 || __atomic_exchange_n(&taken[i], 1u, __ATOMIC_ACQUIRE) != 0)
      continue;
    contexts[i] = {.version = version};
    return &contexts[i];
  }
  return nullptr;
}

Context* find_context(void* context) {
  const auto offset = reinterpret_cast<uintptr_t>(context) - reinterpret_cast<uintptr_t>(contexts);
  if (offset >= sizeof(contexts) || offset % sizeof(Context) != 0) return nullptr;
  const size_t index = offset / sizeof(Context);
  return __atomic_load_n(&taken[index], __ATOMIC_ACQUIRE) != 0 ? &contexts[index] : nullptr;
}

void free_context(Context* context) {
  __atomic_store_n(&taken[context - contexts], 0u, __ATOMIC_RELEASE);
}

void identify(Context* context, uint64_t nccl_hash, uint32_t rank, uint32_t nranks) {
  context->nccl_hash = nccl_hash;
  context->rank = rank;
  context->nranks = nranks;
  Lock lock;
  uint32_t candidates;
  Expectation* entry = choose_expected(*context, &candidates);
  context->known_to_api = candidates != 0;
  if (entry == nullptr) return;
  entry->state = kClaimed;
  entry->context = context;
  if (entry->comm == nullptr) return;
  link(context, entry->comm);
  entry->state = kNone;
}

void announce(Context* context) {
  if (context->known_to_api || context->comm != nullptr || context->nccl_hash == 0 || context->nranks == 0 ||
      context->rank >= context->nranks)
    return;
  const uint32_t told = attached() ? generation() : 0;
  Comm* comm = add_comm(context, {.comm_id = id_of_hash(context->nccl_hash),
                                  .rank = context->rank,
                                  .nranks = context->nranks,
                                  .announced = told,
                                  .profiled = number_of(context)});
  if (comm == nullptr) return;
  context->handle = context;
  __atomic_store_n(&context->comm, comm, __ATOMIC_RELEASE);
  if (told == 0) {  // an agent that has come meanwhile may have looked before it was there
    if (attached() && announce_all_comms()) ring_doorbell();
    return;
  }
  emit_comm_init(comm->comm_id, 0, comm->rank, comm->nranks);
  ring_doorbell();
}

Comm* comm_of(Context* context) {
  if (context->known_to_api && __atomic_load_n(&context->comm, __ATOMIC_ACQUIRE) == nullptr) search(context);
  if (!is_current(context)) return nullptr;
  if (!context->known_to_api && !context->told_ready && attached()) {
    context->told_ready = true;
    if (__atomic_load_n(&context->comm->announced, __ATOMIC_RELAXED) == generation()) emit_comm_ready(*context->comm);
  }
  return context->comm;
}

bool take_credit(Context* context, uint64_t now) {
  uint32_t credits = __atomic_load_n(&context->credits, __ATOMIC_RELAXED);
  if (credits != 0 && now - __atomic_load_n(&context->last_credit_ns, __ATOMIC_RELAXED) > kCreditNs &&
      now > context->last_credit_ns)
    __atomic_store_n(&context->credits, credits = 0, __ATOMIC_RELAXED);
  while (credits != 0)
    if (__atomic_compare_exchange_n(&context->credits, &credits, credits - 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return true;
  return false;
}

void forget(Context* context) {
  {
    Lock lock;
    for (Expectation& entry : expected)
      if (entry.state == kClaimed && entry.context == context) entry.state = kNone;
  }
  if (context->known_to_api) {
    uint32_t profiled = number_of(context);
    if (is_current(context))
      __atomic_compare_exchange_n(&context->comm->profiled, &profiled, 0u, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return;
  }
  Comm known;
  if (retire_comm(context, &known) && known.announced != 0 && attached())
    emit_comm_gone(known.comm_id, known.parent_id, known.rank, known.nranks);
}

}  // namespace profiler
}  // namespace orrery::preload
