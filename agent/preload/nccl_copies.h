// The copies of NCCL in this process and which of them a call is for.
//
// A process may hold several: libnccl.so.2 once by way of a framework and once by dlopen, or inside frameworks that
// link it statically and still export it. Each has state of its own (open groups above all), so a call that reaches
// another copy than the one it would have reached without us ends in a hang. Therefore:
//   * a call of an exported name goes where the loader would have bound that call site without us: to the first
//     definition behind us in the global scope, else to one in the scope of the calling object;
//   * what dlsym found is answered with a wrapper bound to the copy that holds it (nccl_wrappers.cpp);
//   * NCCL's calls of its own public functions, which we preempt, return to that NCCL, except where another interposer
//     takes them.
// Where a call site is bound is looked up once and remembered by its return address, in a table that is read with one
// load. Nothing is ever removed: a copy that a call site was
// bound to stays mapped, and the tables are static.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/preload/nccl_functions.h"

namespace orrery::preload {

// Calls by exported name of further ones are refused; what dlsym finds in them is left alone.
inline constexpr uint32_t kMaxNcclCopies = 8;

struct alignas(512) NcclCopy {
  const void* base;  // first byte of the object that defines it; null: a free slot, or no copy at all
  uint32_t kept;
  void* functions[kNcclFunctions];  // by NcclFunction; null: not asked for yet, 1: the copy lacks it

  // Null when the copy lacks it.
  template <NcclFunction kFunction>
  NcclType<kFunction>* get() {
    return reinterpret_cast<NcclType<kFunction>*>(find(kFunction));
  }
  // Null also when it was not asked for yet.
  template <NcclFunction kFunction>
  NcclType<kFunction>* get_known() const {
    return reinterpret_cast<NcclType<kFunction>*>(known(kFunction));
  }
  void* find(NcclFunction function) {
    void* definition = known(function);
    return definition != nullptr ? definition : find_slow(function);
  }
  uint32_t number() const;

  static constexpr uintptr_t kLacking = 1;

 private:
  void* known(NcclFunction function) const {
    void* definition = __atomic_load_n(&functions[function], __ATOMIC_RELAXED);
    return reinterpret_cast<uintptr_t>(definition) > kLacking ? definition : nullptr;
  }
  void* find_slow(NcclFunction function);
};
static_assert(sizeof(NcclCopy) == 512);

extern NcclCopy nccl_copies[kMaxNcclCopies];
// What calls get when there is no NCCL: it lacks everything.
extern NcclCopy no_nccl;

inline uint32_t NcclCopy::number() const {
  return static_cast<uint32_t>(this - nccl_copies);
}

// Slots are filled in order.
inline bool several_nccl_copies() {
  return __atomic_load_n(&nccl_copies[1].base, __ATOMIC_RELAXED) != nullptr;
}

// Return address, function (several may be called from one place, by pointer) and number of the copy, in one word so
// that it is never seen half written. Addresses beyond 55 bits, which no process gets unasked, are not remembered.
inline constexpr uint32_t kCallSites = 1024;
inline constexpr uint32_t kCopyBits = 3, kFunctionBits = 6;
static_assert(kMaxNcclCopies <= 1u << kCopyBits && kNcclFunctions <= 1u << kFunctionBits);
extern uint64_t nccl_call_sites[kCallSites];

struct NcclCallSite {
  uint64_t key;
  uint64_t& entry;

  NcclCallSite(const void* return_address, NcclFunction function)
      : key(reinterpret_cast<uint64_t>(return_address) << kFunctionBits | function),
        entry(nccl_call_sites[((key >> kFunctionBits) ^ (key >> (kFunctionBits + 10)) ^ function * 16) % kCallSites]) {}
};

// Null when it is not remembered.
inline NcclCopy* nccl_copy_known_at(const void* return_address, NcclFunction function) {
  const NcclCallSite site(return_address, function);
  const uint64_t entry = __atomic_load_n(&site.entry, __ATOMIC_RELAXED);
  return entry >> kCopyBits == site.key ? &nccl_copies[entry % (1u << kCopyBits)] : nullptr;
}

NcclCopy& nccl_copy_at_slow(const void* return_address, NcclFunction function);

// Where the loader would have bound the call of `function` that returns to `return_address`.
inline NcclCopy& nccl_copy_at(const void* return_address, NcclFunction function) {
  NcclCopy* known = nccl_copy_known_at(return_address, function);
  return known != nullptr ? *known : nccl_copy_at_slow(return_address, function);
}

// Whether communicators can come from it. A library that lays itself over some of NCCL's functions, as we do, is a copy
// as well, but not a whole one.
inline bool is_whole_nccl(NcclCopy& copy) {
  return copy.find(kCommInitRank) != nullptr;
}

// The copy that `real`, found by the loader for `function`, belongs to; null when it can't be told or there are too
// many. Neither allocates nor takes a lock but the loader's.
NcclCopy* nccl_copy_with(NcclFunction function, void* real);

}  // namespace orrery::preload
