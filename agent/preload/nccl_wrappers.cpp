// The wrappers themselves, made from the rows of nccl_functions.inc: for each function the exported one, and for what
// dlsym finds one bound to each of the first copies of NCCL.
#include "agent/preload/forward.h"
#include "agent/preload/hook_names.h"
#include "agent/preload/nccl_layer.h"
#include "agent/preload/profiler_comms.h"

namespace orrery::preload {
namespace {

constexpr uint32_t kBoundCopies = 4;  // dlsym's answers for any further copy are left alone
static_assert(kBoundCopies <= kMaxNcclCopies);

// All that a collective may need beyond the jump to NCCL.
template <NcclFunction kFunction, typename... Arguments>
__attribute__((always_inline)) inline ncclResult_t traced(NcclCopy& copy, const Operation& operation, ncclComm_t comm,
                                                          Arguments... arguments) {
  auto* function = copy.get<kFunction>();
  if (function == nullptr) [[unlikely]]
    return missing(kFunction);
  const uint32_t state = arm();
  if (state == kSeeking) tick_sometimes(thread_state.calls_to_tick);
  if (state != kAttached) return function(arguments...);
  NcclCall call(copy);
  if (!call.outermost()) return function(arguments...);
  note_collective(operation, comm, copy);
  const ncclResult_t result = function(arguments...);
  if (thread_state.has_withheld) [[unlikely]]
    report_withheld_slow();
  return result;
}

// Whether there is nothing to do but to jump: no agent, and it is not time to look for one.
__attribute__((always_inline)) inline bool only_forwards() {
  const uint32_t state = arm();
  if (state == kOff) return true;
  uint32_t& calls = thread_state.calls_to_tick;
  if (state == kAttached || tick_is_due(calls)) return false;
  ++calls;
  return true;
}

template <NcclFunction kFunction, typename... Arguments>
ncclResult_t forwarded(NcclCopy& copy, Arguments... arguments) {
  auto* function = copy.get<kFunction>();
  if (function == nullptr) return missing(kFunction);
  NcclCall call(copy);
  return function(arguments...);
}

// A group that was opened in one copy only can be ended nowhere else, whatever the call site says: a function that
// ends with the call leaves its caller's return address. Null when that does not tell.
NcclCopy* copy_with_open_group(const NcclCopy& by_call_site) {
  const auto& groups = thread_state.groups;
  NcclCopy* open = nullptr;
  for (uint32_t i = 0; i < kMaxNcclCopies; ++i) {
    if (groups[i].level == 0) continue;
    if (open != nullptr || i == by_call_site.number()) return nullptr;
    open = &nccl_copies[i];
  }
  return open;
}

// With several copies a communicator goes to the copy that made it, and a call of NCCL's own to the copy that is at
// work. Another interposer keeps its calls.
NcclCopy& choose_copy_slow(NcclCopy& by_call_site, ncclComm_t handle, NcclFunction function) {
  const Thread& self = thread_state;
  if (&by_call_site == &no_nccl) return by_call_site;
  NcclCopy* better = nullptr;
  if (self.depth == 0 && (function == kGroupEnd || function == kGroupSimulateEnd)) {
    better = copy_with_open_group(by_call_site);
    return better != nullptr && better->find(function) != nullptr ? *better : by_call_site;
  }
  if (self.depth != 0)
    better = &nccl_copies[self.copy];
  else if (const Comm* comm = handle != nullptr ? find_comm(handle) : nullptr)
    better = &nccl_copies[comm->copy];
  const bool plain = better != nullptr && is_whole_nccl(*better) && is_whole_nccl(by_call_site);
  return plain && better->find(function) != nullptr ? *better : by_call_site;
}

__attribute__((noinline)) NcclCopy& copy_for_slow(const void* return_address, ncclComm_t comm, NcclFunction function) {
  NcclCopy& copy = nccl_copy_at(return_address, function);
  return several_nccl_copies() ? choose_copy_slow(copy, comm, function) : copy;
}

__attribute__((always_inline)) inline NcclCopy& copy_for(const void* return_address, ncclComm_t comm,
                                                         NcclFunction function) {
  NcclCopy* copy = nccl_copy_known_at(return_address, function);
  if (copy == nullptr || several_nccl_copies()) [[unlikely]]
    return copy_for_slow(return_address, comm, function);
  return *copy;
}

void* wrapper_for(NcclFunction function, void* real, void* exported, void* const (&bound)[kBoundCopies]) {
  if (real == exported) return real;
  const NcclCopy* copy = nccl_copy_with(function, real);
  return copy != nullptr && copy->number() < kBoundCopies ? bound[copy->number()] : real;
}

}  // namespace

ncclResult_t missing(NcclFunction function) {
  static uint32_t said = 0;
  if (__atomic_exchange_n(&said, 1u, __ATOMIC_RELAXED) == 0)
    say_always("no NCCL or RCCL library that has this function is loaded, so it returns ncclInvalidUsage: ",
               kNcclNames[function]);
  return kNcclInvalidUsage;
}

}  // namespace orrery::preload

using namespace orrery::preload;

#define NCCL_LIST(...) __VA_OPT__(, ) __VA_ARGS__
#define RETURN_ADDRESS __builtin_extract_return_addr(__builtin_return_address(0))
#define WRAPPER_FOR(name)                                                                      \
  static void* wrapper_for_##name(void* real) {                                                \
    void* const bound[kBoundCopies] = {                                                        \
        reinterpret_cast<void*>(&bound_##name<0>), reinterpret_cast<void*>(&bound_##name<1>),  \
        reinterpret_cast<void*>(&bound_##name<2>), reinterpret_cast<void*>(&bound_##name<3>)}; \
    return wrapper_for(k##name, real, reinterpret_cast<void*>(&nccl##name), bound);            \
  }
#define WRAPPER(result, name, communicator, parameters, body)         \
  template <uint32_t kCopy>                                           \
  static result bound_##name parameters {                             \
    NcclCopy& copy = nccl_copies[kCopy];                              \
    return body;                                                      \
  }                                                                   \
  ORRERY_EXPORT result nccl##name parameters {                        \
    NcclCopy& copy = copy_for(RETURN_ADDRESS, communicator, k##name); \
    return body;                                                      \
  }                                                                   \
  WRAPPER_FOR(name)
#define FORWARD(name, communicator, parameters, arguments) \
  WRAPPER(ncclResult_t, name, communicator, parameters, forwarded<k##name>(copy NCCL_LIST arguments))
#define OWN(result, name, communicator, parameters, arguments) \
  WRAPPER(result, name, communicator, parameters, NcclBody<k##name>::run(copy NCCL_LIST arguments))

// The hot path has no frame: every way out of it is a jump, and all that needs the stack is in the functions it jumps
// to, which have the same parameters and return to the same call site.
#define COLLECTIVE(name, parameters, arguments, ...)                                                          \
  template <uint32_t kCopy>                                                                                   \
  __attribute__((noinline)) static ncclResult_t bound_slow_##name parameters {                                \
    return traced<k##name>(nccl_copies[kCopy], {__VA_ARGS__}, comm NCCL_LIST arguments);                      \
  }                                                                                                           \
  template <uint32_t kCopy>                                                                                   \
  static ncclResult_t bound_##name parameters {                                                               \
    auto* function = nccl_copies[kCopy].get_known<k##name>();                                                 \
    if (function != nullptr && only_forwards()) return function arguments;                                    \
    return bound_slow_##name<kCopy> arguments;                                                                \
  }                                                                                                           \
  __attribute__((noinline)) static ncclResult_t slow_##name parameters {                                      \
    return traced<k##name>(copy_for(RETURN_ADDRESS, comm, k##name), {__VA_ARGS__}, comm NCCL_LIST arguments); \
  }                                                                                                           \
  ORRERY_EXPORT ncclResult_t nccl##name parameters {                                                          \
    const NcclCopy* copy = nccl_copy_known_at(RETURN_ADDRESS, k##name);                                       \
    if (copy == nullptr || several_nccl_copies()) return slow_##name arguments;                               \
    auto* function = copy->get_known<k##name>();                                                              \
    if (function != nullptr && only_forwards()) return function arguments;                                    \
    return slow_##name arguments;                                                                             \
  }                                                                                                           \
  WRAPPER_FOR(name)
#include "agent/preload/nccl_functions.inc"
#undef RETURN_ADDRESS
#undef NCCL_LIST
#undef WRAPPER
#undef WRAPPER_FOR

namespace orrery::preload {

HookTable nccl_hook_table() {
#define COLLECTIVE(name, parameters, arguments, ...) {kNcclNames[k##name], nullptr, wrapper_for_##name},
#define FORWARD(name, communicator, parameters, arguments) {kNcclNames[k##name], nullptr, wrapper_for_##name},
#define OWN(result, name, communicator, parameters, arguments) {kNcclNames[k##name], nullptr, wrapper_for_##name},
  static constexpr HookedName kHooked[] = {
#include "agent/preload/nccl_functions.inc"
  };
  return {kHooked, kNcclFunctions};
}

}  // namespace orrery::preload
