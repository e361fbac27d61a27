// dlsym and dlvsym, laid over the loader's. NCCL finds verbs with dlvsym and programs find NCCL with dlsym; an exported
// wrapper is not seen by either.
//
// A name in no table (hook_names.h) goes on to the loader's function by a jump, with every register as it came: the
// loader reads its caller's return address to give RTLD_NEXT and RTLD_DEFAULT their meaning. Nothing is locked,
// allocated, logged or said to dlerror on that way. For a name in a table:
//   * what is not there is not answered: the wrappers that we export never appear where the program would have found
//     nothing without us;
//   * the answer forwards to the very function that the program would have found;
//   * RTLD_NEXT is left alone: whoever asks for it interposes like us, and already stands in a chain with us.
// On a C library without dlvsym (musl) and with the kill switch nothing is wrapped, and our exports stay out of sight
// all the same.
#pragma once

namespace orrery::preload {

// The loader's own dlsym, whatever we or others lay over it; RTLD_NEXT means after this library. Null when the name is
// unknown (and dlerror says so) or there is no dlsym at all.
void* loader_symbol(void* handle, const char* name);
void* loader_symbol(void* handle, const char* name, const char* version);

// Whether requests are answered with wrappers in this process.
bool dl_hook_is_active();

// What the assembly of dl_entry.cpp does next: jump to `target` with the arguments as they came, or, when that is null,
// return `value`.
struct DlRoute {
  void* target;
  void* value;
};

}  // namespace orrery::preload

extern "C" {
__attribute__((visibility("hidden"))) orrery::preload::DlRoute orrery_route_dlsym(void* handle, const char* name,
                                                                                  const void* caller);
__attribute__((visibility("hidden"))) orrery::preload::DlRoute orrery_route_dlvsym(void* handle, const char* name,
                                                                                   const char* version,
                                                                                   const void* caller);
}
