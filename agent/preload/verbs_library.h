// Finding functions in the libraries of verbs that the process has mapped. Never loads one.
#pragma once

#include "agent/preload/forward.h"

namespace orrery::preload {

// The default version of `name` in what comes after this library, else in a libibverbs or libmlx5 that is mapped,
// however it was loaded; null when there is none. The library stays mapped from then on.
void* verbs_symbol(const char* name);
// The default version of `name` in the object that holds the code of `function`; null when it has none.
void* symbol_beside(void* function, const char* name);

template <typename Function>
using RealVerbs = Real<Function, verbs_symbol>;

}  // namespace orrery::preload
