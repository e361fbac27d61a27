#include "agent/preload/profiler_chain.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/preload/dl_hook.h"
#include "agent/preload/forward.h"
#include "agent/preload/kill_switch.h"
#include "agent/preload/process.h"
#include "agent/preload/profiler.h"
#include "agent/preload/profiler_convert.h"

#if defined(__x86_64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlerror, dlerror@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.17");
__asm__(".symver dlerror, dlerror@GLIBC_2.17");
#endif

namespace orrery::preload::profiler {
namespace {

constexpr const char* kNames[kVersions + 1] = {"",
                                               "ncclProfiler_v1",
                                               "ncclProfiler_v2",
                                               "ncclProfiler_v3",
                                               "ncclProfiler_v4",
                                               "ncclProfiler_v5",
                                               "ncclProfiler_v6"};

const void* looked_up[kVersions + 1];  // tables of the user's that NCCL asked the loader for
void* library;
enum LibraryState : uint32_t { kNotLoaded = 0, kLoading = 1, kLoaded = 2 };
uint32_t library_state = kNotLoaded;
constexpr uint64_t kLoadNs = 10'000'000'000;
Chain chains[kVersions + 1];
int mask;  // the plug-in's own; NCCL has one for all communicators, too

// "STATIC_PLUGIN" and every beginning of it mean the program's own symbols to NCCL, in any case of letters.
bool names_a_library(const char* name) {
  return name != nullptr && *name != '\0' && strncasecmp(name, "STATIC_PLUGIN", strlen(name)) != 0 &&
         strcasecmp(name, "none") != 0;
}

// Ours, by whatever name, is no plug-in of the user's.
bool is_another(void* opened) {
  for (int version = kVersions; version >= 1; --version)
    if (const void* found = loader_symbol(opened, kNames[version])) return found != own_table(version);
  return false;
}

void* open_named(const char* name) {
  if (!names_a_library(name)) return nullptr;
  void* opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr || !is_another(opened)) {
    dlerror();
    return nullptr;
  }
  return opened;
}

void load_once() {
  const char* wanted = getenv("ORRERY_PROFILER_CHAIN");
  library = open_named(wanted);
  if (library == nullptr && names_a_library(wanted))
    say(kLogError, "ORRERY_PROFILER_CHAIN cannot be loaded or is no profiler plug-in: ", wanted);
  __atomic_store_n(&library_state, uint32_t{kLoaded}, __ATOMIC_RELEASE);
}

// Threads that make communicators at the same time wait for the one that loads, as they would in NCCL; but not for a
// thread that a forked child has not.
void load() {
  uint32_t state = kNotLoaded;
  if (__atomic_compare_exchange_n(&library_state, &state, uint32_t{kLoading}, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_ACQUIRE))
    return load_once();
  const uint64_t deadline = state == kLoading ? now_ns() + kLoadNs : 0;
  while (state == kLoading && now_ns() < deadline) {
    sched_yield();
    state = __atomic_load_n(&library_state, __ATOMIC_ACQUIRE);
  }
}

Chain find_chain(int version) {
  if (const void* table = __atomic_load_n(&looked_up[version], __ATOMIC_ACQUIRE)) return {version, table};
  load();
  if (__atomic_load_n(&library_state, __ATOMIC_ACQUIRE) != kLoaded || library == nullptr) return {};
  for (int offered = version; offered >= 1; --offered)
    if (const void* table = loader_symbol(library, kNames[offered])) return {offered, table};
  dlerror();
  return {};
}

template <int kVersion>
const Table<kVersion>* table_of(const Chain& chain) {
  return static_cast<const Table<kVersion>*>(chain.table);
}

// Calls `use` with the table of the chain's version.
template <int kVersion = kVersions, typename Use>
void with_table(const Chain& chain, Use use) {
  if (chain.version == kVersion) return use(table_of<kVersion>(chain));
  if constexpr (kVersion > 1) with_table<kVersion - 1>(chain, use);
}

template <int kFrom, int kTo>
void start_as(const Table<kTo>* table, void* context, void** event, typename Types<kFrom>::Descriptor* descriptor) {
  if (table->start_event == nullptr) return;
  if constexpr (kFrom == kTo) {
    table->start_event(context, event, descriptor);
  } else {
    typename Types<kTo>::Descriptor older;
    if (convert(older, *descriptor)) table->start_event(context, event, &older);
  }
}

template <int kTo, int kFrom = kTo>
void start_from(int version, const Table<kTo>* table, void* context, void** event, void* descriptor) {
  if (version == kFrom)
    return start_as<kFrom>(table, context, event, static_cast<typename Types<kFrom>::Descriptor*>(descriptor));
  if constexpr (kFrom < kVersions) start_from<kTo, kFrom + 1>(version, table, context, event, descriptor);
}

void* wrap(int version, void* real) {
  if (is_switched_off() || stands_down()) return real;
  if (real == own_table(version)) return real;
  __atomic_store_n(&looked_up[version], real, __ATOMIC_RELEASE);
  return own_table(version);
}

template <int kVersion>
void* wrapper_for(void* real) {
  return wrap(kVersion, real);
}

constexpr HookedName kHooked[] = {
    {kNames[1], nullptr, wrapper_for<1>, true}, {kNames[2], nullptr, wrapper_for<2>, true},
    {kNames[3], nullptr, wrapper_for<3>, true}, {kNames[4], nullptr, wrapper_for<4>, true},
    {kNames[5], nullptr, wrapper_for<5>, true}, {kNames[6], nullptr, wrapper_for<6>, true},
};

constexpr uint32_t kMarks = 4096;  // a power of two
constexpr uint32_t kWays = 4;
void* marks[kMarks];
uint32_t next_way;

void** marks_of(void* event) {
  const auto key = reinterpret_cast<uint64_t>(event) >> 3;
  return &marks[static_cast<uint32_t>((key * 0x9e3779b97f4a7c15ull) >> 40) & (kMarks - kWays)];
}

}  // namespace

const Chain& current_chain(int version) {
  static constexpr Chain kNone{};
  return __atomic_load_n(&chains[version].version, __ATOMIC_ACQUIRE) != 0 ? chains[version] : kNone;
}

const Chain& chain_for(int version) {
  const Chain& known = current_chain(version);
  if (known.version != 0) return known;
  const Chain found = find_chain(version);
  if (found.version == 0) return known;
  chains[version].table = found.table;  // whoever else is here has found the same
  __atomic_store_n(&chains[version].version, found.version, __ATOMIC_RELEASE);
  return chains[version];
}

bool chained_init(const Chain& chain, void** context, const InitArguments& arguments) {
  int result = 0;
  with_table(chain, [&](auto* table) {
    if (table->init == nullptr) {
      result = -1;
      return;
    }
    if constexpr (requires { table->init(context, &mask); })
      result = table->init(context, &mask);
    else if constexpr (requires { table->init(context, arguments.comm_hash, &mask, "", 0, 0, 0, arguments.log); })
      result = table->init(context, arguments.comm_hash, &mask, arguments.comm_name, arguments.nodes, arguments.nranks,
                           arguments.rank, arguments.log);
    else
      result = table->init(context, &mask, arguments.comm_name, arguments.comm_hash, arguments.nodes, arguments.nranks,
                           arguments.rank, arguments.log);
  });
  return result == 0;
}

int chained_mask() {
  return __atomic_load_n(&mask, __ATOMIC_RELAXED);
}

// The conditions of NCCL's src/plugin/profiler.cc (src/misc/profiler.cc until 2.25). Only the types that our own mask
// brings about are told apart; of all others NCCL makes none that the plug-in has not asked for.
bool is_wanted(int version, uint64_t type, int asked) {
  constexpr int kProxy = kProxyOp | kProxyStep, kLow = kKernelCh | kNetPlugin, kCe = kCeColl | kCeSync | kCeBatch;
  const int low = version >= 3 ? kLow : 0, copies = version >= 6 ? kCe : 0;
  switch (type) {
    case kGroup:
      return asked & (kColl | kP2p | kProxy | low | (version >= 3 ? int{kGroup} : 0));
    case kColl:
      return asked & (kColl | kProxy | low);
    case kP2p:
      return asked & (kP2p | kProxy | low);
    case kGroupApi:
      return asked & (kGroupApi | kP2pApi | kCollApi | kKernelLaunch | kGroup | kColl | kP2p | kProxy | low | copies);
    case kCollApi:
      return asked & (kCollApi | kColl | kProxy | low | copies);
    case kP2pApi:
      return asked & (kP2pApi | kP2p | kProxy | low);
    default:
      return true;
  }
}

void chained_start(const Chain& chain, int version, void* context, void** event, void* descriptor) {
  with_table(chain,
             [&]<int kTo>(const Table<kTo>* table) { start_from<kTo>(version, table, context, event, descriptor); });
}

void chained_stop(const Chain& chain, void* event) {
  with_table(chain, [&](auto* table) {
    if (table->stop_event != nullptr) table->stop_event(event);
  });
}

void chained_record(const Chain& chain, int version, void* event, int state, void* arguments) {
  with_table(chain, [&]<int kTo>(const Table<kTo>* table) {
    if (table->record_event_state == nullptr) return;
    if (version != kTo && !has_state(kTo, state)) return;
    if constexpr (kTo <= 3) {
      StateArguments1 older;
      if (version >= 4) {
        if (!convert_state(state, older, static_cast<const StateArguments4*>(arguments))) return;
        arguments = &older;
      }
      table->record_event_state(event, state, static_cast<StateArguments1*>(arguments));
    } else {
      StateArguments4 none{};
      if (version != kTo && arguments == nullptr) arguments = &none;
      table->record_event_state(event, state, static_cast<StateArguments4*>(arguments));
    }
  });
}

void chained_finalize(const Chain& chain, void* context) {
  with_table(chain, [&](auto* table) {
    if (table->finalize != nullptr) table->finalize(context);
  });
}

void mark_captured(void* event, bool captured) {
  void** ways = marks_of(event);
  for (uint32_t i = 0; i < kWays; ++i) {
    if (__atomic_load_n(&ways[i], __ATOMIC_RELAXED) != event) continue;
    if (captured) return;
    __atomic_store_n(&ways[i], nullptr, __ATOMIC_RELAXED);
  }
  if (!captured) return;
  for (uint32_t i = 0; i < kWays; ++i) {
    void* none = nullptr;
    if (__atomic_compare_exchange_n(&ways[i], &none, event, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
  }
  __atomic_store_n(&ways[__atomic_fetch_add(&next_way, 1u, __ATOMIC_RELAXED) % kWays], event, __ATOMIC_RELAXED);
}

bool is_marked_captured(void* event) {
  if (event == nullptr) return false;
  void** ways = marks_of(event);
  for (uint32_t i = 0; i < kWays; ++i)
    if (__atomic_load_n(&ways[i], __ATOMIC_RELAXED) == event) return true;
  return false;
}

}  // namespace orrery::preload::profiler

namespace orrery::preload {

HookTable profiler_hook_table() {
  return {profiler::kHooked, sizeof(profiler::kHooked) / sizeof(profiler::kHooked[0])};
}

}  // namespace orrery::preload
