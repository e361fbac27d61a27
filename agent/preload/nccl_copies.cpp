#include "agent/preload/nccl_copies.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "agent/preload/dl_hook.h"
#include "agent/preload/forward.h"
#include "agent/preload/loaded_object.h"

#if defined(__x86_64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlclose, dlclose@GLIBC_2.2.5");
__asm__(".symver dlerror, dlerror@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlopen, dlopen@GLIBC_2.17");
__asm__(".symver dlclose, dlclose@GLIBC_2.17");
__asm__(".symver dlerror, dlerror@GLIBC_2.17");
#endif

namespace orrery::preload {

constinit NcclCopy nccl_copies[kMaxNcclCopies]{};
constinit NcclCopy no_nccl{};
constinit uint64_t nccl_call_sites[kCallSites]{};

namespace {

constexpr size_t kMaxPath = 4096;

// The object of the process that `address` lies in. The loader must not be called from within the iteration, so the
// path is copied; it is empty for the program itself.
struct ObjectAt {
  const void* address;
  NcclFunction function;
  const void* base = nullptr;  // null: in no object
  void* definition = nullptr;  // of `function` in the object itself
  char path[kMaxPath];
};

bool spans(const dl_phdr_info& object, const void* address, const void** base) {
  uintptr_t lowest = UINTPTR_MAX;
  bool inside = false;
  for (unsigned i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t start = object.dlpi_addr + part.p_vaddr;
    if (start < lowest) lowest = start;
    inside = inside || reinterpret_cast<uintptr_t>(address) - start < part.p_memsz;
  }
  *base = reinterpret_cast<const void*>(lowest);
  return inside;
}

void* definition_in(const dl_phdr_info& object, NcclFunction function) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (unsigned i = 0; i < object.dlpi_phnum; ++i)
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
  return LoadedObject(object.dlpi_addr, dynamic).find(kNcclNames[function]);
}

int visit(dl_phdr_info* object, size_t, void* out) {
  auto& wanted = *static_cast<ObjectAt*>(out);
  const void* base;
  if (!spans(*object, wanted.address, &base)) return 0;
  wanted.base = base;
  wanted.definition = definition_in(*object, wanted.function);
  const char* path = object->dlpi_name;
  if (path != nullptr && strlen(path) < kMaxPath) strcpy(wanted.path, path);
  return 1;
}

bool find_object(ObjectAt& wanted) {
  wanted.path[0] = '\0';
  return dl_iterate_phdr(visit, &wanted) != 0;
}

const void* base_of(const void* address) {
  ObjectAt object{.address = address, .function = kGetVersion};
  find_object(object);
  return object.base;
}

bool is_ours(const void* address) {
  return base_of(address) == base_of(nccl_copies);
}

NcclCopy* known_copy(const void* base) {
  for (NcclCopy& copy : nccl_copies)
    if (__atomic_load_n(&copy.base, __ATOMIC_RELAXED) == base) return &copy;
  return nullptr;
}

// Null when all slots are taken by others.
NcclCopy* copy_of_object(const void* base) {
  for (NcclCopy& copy : nccl_copies) {
    const void* seen = nullptr;
    if (__atomic_compare_exchange_n(&copy.base, &seen, base, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || seen == base)
      return &copy;
  }
  return nullptr;
}

// The first of several answers stays.
void* remember(NcclCopy& copy, NcclFunction function, void* definition) {
  void* known = __atomic_load_n(&copy.functions[function], __ATOMIC_RELAXED);
  while (reinterpret_cast<uintptr_t>(known) <= NcclCopy::kLacking)
    if (__atomic_compare_exchange_n(&copy.functions[function], &known, definition, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return definition;
  return known;
}

// As the loader just said. When it said otherwise before, another library is now where that one was.
void correct(NcclCopy& copy, NcclFunction function, void* definition) {
  if (remember(copy, function, definition) == definition) return;
  for (void*& known : copy.functions) __atomic_store_n(&known, nullptr, __ATOMIC_RELAXED);
  remember(copy, function, definition);
}

// Keeps the object of the copy mapped, because call sites that were bound to it are remembered for good.
void keep(NcclCopy& copy) {
  if (__atomic_exchange_n(&copy.kept, 1u, __ATOMIC_RELAXED) != 0) return;
  ObjectAt object{.address = copy.base, .function = kGetVersion};
  if (find_object(object) && object.path[0] != '\0') dlopen(object.path, RTLD_NOLOAD | RTLD_LAZY);
}

// In the scope of an object that was opened RTLD_LOCAL: its own definition, or one of the libraries it needs.
void* definition_for(const char* path, NcclFunction function) {
  void* object = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (object == nullptr) return nullptr;
  void* definition = loader_symbol(object, kNcclNames[function]);
  if (definition != nullptr && is_ours(definition)) definition = nullptr;
  if (definition == nullptr) dlclose(object);  // else it stays: its code is going to be called
  return definition;
}

struct Search {
  NcclFunction function;
  bool named;  // only objects with NCCL's name, or only those without
  void* found;
};

bool is_named_nccl(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* file = slash != nullptr ? slash + 1 : path;
  const bool plugin =
      strstr(file, "-net") != nullptr || strstr(file, "-tuner") != nullptr || strstr(file, "-profiler") != nullptr;
  return !plugin && (strncmp(file, "libnccl", 7) == 0 || strncmp(file, "librccl", 7) == 0);
}

int search_one(dl_phdr_info* object, size_t, void* out) {
  auto& search = *static_cast<Search*>(out);
  const void* base;
  if (spans(*object, nccl_copies, &base) || object->dlpi_name == nullptr ||
      is_named_nccl(object->dlpi_name) != search.named)
    return 0;
  search.found = definition_in(*object, search.function);
  return search.found != nullptr;
}

// For a call that nothing but our own export could satisfy: any NCCL that is mapped, however it was loaded. None is
// ever loaded for it.
void* definition_anywhere(NcclFunction function) {
  Search search{function, true, nullptr};
  if (dl_iterate_phdr(search_one, &search) == 0) {
    search.named = false;
    dl_iterate_phdr(search_one, &search);
  }
  return search.found;
}

bool is_interposer(const void* definition) {
  ObjectAt object{.address = definition, .function = kCommInitRank};
  return find_object(object) && object.definition == nullptr;
}

// Where the loader would have bound it. An NCCL that calls itself through us is answered with itself.
void* binding_of(const ObjectAt& caller, NcclFunction function) {
  void* next = next_symbol(kNcclNames[function]);
  const bool calls_itself =
      caller.base != nullptr && caller.definition != nullptr && known_copy(caller.base) != nullptr;
  if (calls_itself && (next == nullptr || !is_interposer(next))) return caller.definition;
  if (next != nullptr) return next;
  void* found = caller.base != nullptr && caller.path[0] != '\0' ? definition_for(caller.path, function) : nullptr;
  if (found == nullptr) found = definition_anywhere(function);
  dlerror();
  return found;
}

}  // namespace

void* NcclCopy::find_slow(NcclFunction function) {
  if (base == nullptr || __atomic_load_n(&functions[function], __ATOMIC_RELAXED) != nullptr) return nullptr;
  ObjectAt object{.address = base, .function = function};
  find_object(object);
  if (object.definition != nullptr) return remember(*this, function, object.definition);
  remember(*this, function, reinterpret_cast<void*>(kLacking));
  return nullptr;
}

NcclCopy& nccl_copy_at_slow(const void* return_address, NcclFunction function) {
  ObjectAt caller{.address = return_address, .function = function};
  find_object(caller);
  void* definition = binding_of(caller, function);
  NcclCopy* copy = definition != nullptr ? nccl_copy_with(function, definition) : nullptr;
  if (copy == nullptr) return no_nccl;
  keep(*copy);
  const NcclCallSite site(return_address, function);
  __atomic_store_n(&site.entry, site.key << kCopyBits | copy->number(), __ATOMIC_RELAXED);
  return *copy;
}

NcclCopy* nccl_copy_with(NcclFunction function, void* real) {
  for (NcclCopy& copy : nccl_copies)
    if (__atomic_load_n(&copy.functions[function], __ATOMIC_RELAXED) == real) return &copy;
  const void* base = base_of(real);
  NcclCopy* copy = base != nullptr && !is_ours(real) ? copy_of_object(base) : nullptr;
  if (copy != nullptr) correct(*copy, function, real);
  return copy;
}

}  // namespace orrery::preload
