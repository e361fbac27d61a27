// The real functions behind our wrappers.
//
// A Real is a pointer found once and then read with one relaxed load: in the constructor, so that neither a signal
// handler nor a forked child ever has to ask the loader, or at the first call before it. NCCL's are elsewhere
// (nccl_copies.h): there may be several.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace orrery::preload {

// The next definition of `name` after this library; null when there is none. dlerror's state is left clean.
void* next_symbol(const char* name);
// The same for the definition that the program's own calls reach.
void* global_symbol(const char* name);

template <typename Function, void* (*Find)(const char*)>
class Real {
 public:
  explicit constexpr Real(const char* name) : name_(name) {}

  // Null when the function does not exist (then it is looked for again next time).
  Function* get() {
    Function* function = __atomic_load_n(&function_, __ATOMIC_RELAXED);
    return function != nullptr ? function : find_slow();
  }
  const char* name() const { return name_; }

 private:
  __attribute__((noinline)) Function* find_slow() {
    auto* function = reinterpret_cast<Function*>(Find(name_));
    __atomic_store_n(&function_, function, __ATOMIC_RELAXED);
    return function;
  }

  const char* const name_;
  Function* function_ = nullptr;
};

template <typename Function>
using RealLibc = Real<Function, next_symbol>;

}  // namespace orrery::preload

#define ORRERY_EXPORT extern "C" __attribute__((visibility("default")))
