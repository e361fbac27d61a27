// Which names the dlsym and dlvsym hook answers with a wrapper, and with which. Each layer has a table of its own.
//
// Why it exists: NCCL finds verbs with dlvsym, and programs find NCCL with dlsym (ctypes, NVSHMEM); an exported wrapper
// is not seen then. A name in no table costs the hook one hash lookup and goes on to the loader as if we were not
// there.
#pragma once

#include <stddef.h>

namespace orrery::preload {

struct HookedName {
  const char* name;
  // Null: asked for without a version, or with any. Else the hook answers requests for this version, and those without
  // one (which mean the library's default), but none for another. A name may stand there once per version.
  const char* version;
  // `real` is what the loader found for the request, never null: a name the loaded library lacks is never answered.
  // Returns the wrapper that forwards to that very copy, or `real` when this request should get the function itself.
  // Must not allocate, lock or log (the first time a library is met the loader may be asked whose address it is, which
  // takes its lock for a moment); called on any thread, also before the library has become interested.
  void* (*wrapper_for)(void* real);
  // Ours by design and not laid over another's: whoever finds ours gets it.
  bool own = false;
};

struct HookTable {
  const HookedName* names;
  size_t count;
};

HookTable nccl_hook_table();
HookTable profiler_hook_table();
HookTable verbs_hook_table();

}  // namespace orrery::preload
