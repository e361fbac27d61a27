#include "agent/preload/verbs_library.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "agent/preload/dl_hook.h"
#include "agent/preload/loaded_object.h"

#if defined(__x86_64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.17");
#endif

namespace orrery::preload {
namespace {

constexpr size_t kMaxPath = 4096;

struct Search {
  const char* name;
  uintptr_t address;  // of code in the wanted object; 0: any object with a name of verbs
  void* found;
  char* path;  // of the object it was found in, in kMaxPath bytes; null: not wanted
};

bool is_named_verbs(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* file = slash != nullptr ? slash + 1 : path;
  return strncmp(file, "libibverbs", 10) == 0 || strncmp(file, "libmlx5", 7) == 0;
}

// The search is without the loader's functions, which must not be called from here.
int visit(dl_phdr_info* object, size_t, void* out) {
  auto& search = *static_cast<Search*>(out);
  const char* path = object->dlpi_name != nullptr ? object->dlpi_name : "";
  const ElfW(Dyn)* dynamic = nullptr;
  bool wanted = search.address == 0 && is_named_verbs(path);
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + part.p_vaddr);
    if (part.p_type == PT_LOAD && search.address != 0 &&
        search.address - (object->dlpi_addr + part.p_vaddr) < part.p_memsz)
      wanted = true;
  }
  if (!wanted || dynamic == nullptr) return 0;
  search.found = LoadedObject(object->dlpi_addr, dynamic).find(search.name);
  if (search.found != nullptr && search.path != nullptr && strlen(path) < kMaxPath) strcpy(search.path, path);
  return search.found != nullptr || search.address != 0;
}

}  // namespace

// RTLD_NEXT does not see what was opened RTLD_LOCAL (python's import).
void* verbs_symbol(const char* name) {
  if (void* symbol = next_symbol(name)) return symbol;
  char path[kMaxPath] = "";
  Search search{name, 0, nullptr, path};
  dl_iterate_phdr(visit, &search);
  if (path[0] != '\0') dlopen(path, RTLD_NOLOAD | RTLD_LAZY);  // a reference that is kept
  return search.found;
}

void* symbol_beside(void* function, const char* name) {
  Search search{name, reinterpret_cast<uintptr_t>(function), nullptr, nullptr};
  dl_iterate_phdr(visit, &search);
  return search.found;
}

}  // namespace orrery::preload
