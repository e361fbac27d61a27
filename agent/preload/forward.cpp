#include "agent/preload/forward.h"

#include <dlfcn.h>

#include "agent/preload/dl_hook.h"

// Bound to the oldest version, which every glibc of the last twenty years provides (from libdl.so.2 before 2.34).
#if defined(__x86_64__)
#define ORRERY_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define ORRERY_OLDEST_GLIBC "GLIBC_2.17"
#endif
__asm__(".symver dlerror, dlerror@" ORRERY_OLDEST_GLIBC);

namespace orrery::preload {

static void* symbol_or_silence(void* where, const char* name) {
  void* symbol = loader_symbol(where, name);
  if (symbol == nullptr) dlerror();
  return symbol;
}

void* next_symbol(const char* name) {
  return symbol_or_silence(RTLD_NEXT, name);
}

void* global_symbol(const char* name) {
  return symbol_or_silence(RTLD_DEFAULT, name);
}

}  // namespace orrery::preload
