#include "agent/preload/forward.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

// Bound to the oldest version, which every glibc of the last twenty years provides (from libdl.so.2 before 2.34).
#if defined(__x86_64__)
#define ORRERY_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define ORRERY_OLDEST_GLIBC "GLIBC_2.17"
#endif
__asm__(".symver dlsym, dlsym@" ORRERY_OLDEST_GLIBC);
__asm__(".symver dlopen, dlopen@" ORRERY_OLDEST_GLIBC);
__asm__(".symver dlerror, dlerror@" ORRERY_OLDEST_GLIBC);

namespace orrery::preload {
namespace {

constexpr size_t kMaxPath = 1024;

struct MappedNccl {
  char path[kMaxPath];
};

int pick_nccl(dl_phdr_info* info, size_t, void* out) {
  const char* path = info->dlpi_name;
  if (path == nullptr || strlen(path) >= kMaxPath) return 0;
  const char* slash = strrchr(path, '/');
  const char* file = slash != nullptr ? slash + 1 : path;
  const bool plugin =
      strstr(file, "-net") != nullptr || strstr(file, "-tuner") != nullptr || strstr(file, "-profiler") != nullptr;
  if (plugin || (strncmp(file, "libnccl", 7) != 0 && strncmp(file, "librccl", 7) != 0)) return 0;
  strcpy(static_cast<MappedNccl*>(out)->path, path);
  return 1;
}

}  // namespace

void* next_symbol(const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr) dlerror();
  return symbol;
}

// RTLD_NEXT does not see what was opened RTLD_LOCAL (python's import): then the library itself is asked.
void* nccl_symbol(const char* name) {
  if (void* symbol = next_symbol(name)) return symbol;
  MappedNccl found{};
  if (dl_iterate_phdr(pick_nccl, &found) == 0) return nullptr;
  void* library = dlopen(found.path, RTLD_NOLOAD | RTLD_LAZY);
  void* symbol = library != nullptr ? dlsym(library, name) : nullptr;
  if (symbol == nullptr) dlerror();
  return symbol;
}

}  // namespace orrery::preload
