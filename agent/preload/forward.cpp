#include "agent/preload/forward.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "agent/preload/dl_hook.h"

// Bound to the oldest version, which every glibc of the last twenty years provides (from libdl.so.2 before 2.34).
#if defined(__x86_64__)
#define ORRERY_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define ORRERY_OLDEST_GLIBC "GLIBC_2.17"
#endif
__asm__(".symver dlopen, dlopen@" ORRERY_OLDEST_GLIBC);
__asm__(".symver dladdr, dladdr@" ORRERY_OLDEST_GLIBC);
__asm__(".symver dlclose, dlclose@" ORRERY_OLDEST_GLIBC);
__asm__(".symver dlerror, dlerror@" ORRERY_OLDEST_GLIBC);

namespace orrery::preload {
namespace {

constexpr size_t kMaxPath = 4096;
constexpr unsigned kMaxObjects = 4096;

// The path of the `wanted`-th object of the process. Only copied here: the loader must not be called from within the
// iteration.
struct ObjectSearch {
  unsigned wanted;
  unsigned seen;
  char path[kMaxPath];
};

int copy_path(dl_phdr_info* info, size_t, void* out) {
  auto* search = static_cast<ObjectSearch*>(out);
  if (search->seen++ != search->wanted) return 0;
  const char* path = info->dlpi_name;
  if (path != nullptr && strlen(path) < kMaxPath) strcpy(search->path, path);
  return 1;
}

bool is_named_nccl(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* file = slash != nullptr ? slash + 1 : path;
  const bool plugin =
      strstr(file, "-net") != nullptr || strstr(file, "-tuner") != nullptr || strstr(file, "-profiler") != nullptr;
  return !plugin && (strncmp(file, "libnccl", 7) == 0 || strncmp(file, "librccl", 7) == 0);
}

// A wrapper of ours, found through an object that lists us among its own needs.
bool is_own_symbol(void* symbol) {
  Dl_info theirs, ours;
  return dladdr(symbol, &theirs) != 0 && dladdr(reinterpret_cast<void*>(&next_symbol), &ours) != 0 &&
         theirs.dli_fbase == ours.dli_fbase;
}

void* symbol_of(const char* path, const char* name) {
  void* library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return nullptr;
  void* symbol = loader_symbol(library, name);
  if (symbol == nullptr) dlclose(library);  // else it stays: its code is going to be called
  return symbol;
}

// Asks each mapped object in turn: those with NCCL's name first, or those without (frameworks that contain it).
void* search_objects(const char* name, bool named) {
  ObjectSearch search{};
  for (search.wanted = 0; search.wanted < kMaxObjects; ++search.wanted) {
    search.seen = 0;
    search.path[0] = '\0';
    if (dl_iterate_phdr(copy_path, &search) == 0) return nullptr;
    if (search.path[0] == '\0' || is_named_nccl(search.path) != named) continue;
    void* symbol = symbol_of(search.path, name);
    if (symbol != nullptr && !is_own_symbol(symbol)) return symbol;
  }
  return nullptr;
}

}  // namespace

void* next_symbol(const char* name) {
  void* symbol = loader_symbol(RTLD_NEXT, name);
  if (symbol == nullptr) dlerror();
  return symbol;
}

// RTLD_NEXT does not see what was opened RTLD_LOCAL (python's import): then the objects themselves are asked.
void* nccl_symbol(const char* name) {
  if (void* symbol = next_symbol(name)) return symbol;
  void* symbol = search_objects(name, true);
  if (symbol == nullptr) symbol = search_objects(name, false);
  dlerror();
  return symbol;
}

}  // namespace orrery::preload
