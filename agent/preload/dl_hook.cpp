#include "agent/preload/dl_hook.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include <initializer_list>

#include "agent/preload/hook_names.h"
#include "agent/preload/kill_switch.h"
#include "agent/preload/loaded_object.h"

#if defined(__x86_64__)
__asm__(".symver dlerror, dlerror@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlerror, dlerror@GLIBC_2.17");
#endif

extern "C" {
// The bounds of this library; the linker provides them.
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace orrery::preload {

// For a library that is built without one of the layers.
__attribute__((weak)) HookTable nccl_hook_table() {
  return {nullptr, 0};
}
__attribute__((weak)) HookTable profiler_hook_table() {
  return {nullptr, 0};
}
__attribute__((weak)) HookTable verbs_hook_table() {
  return {nullptr, 0};
}

namespace {

using Dlsym = void*(void*, const char*);
using Dlvsym = void*(void*, const char*, const char*);

struct Loader {
  Dlsym* dlsym;
  Dlvsym* dlvsym;
  const ElfW(Dyn) * last_at_start;  // of the last object that was there when the program began
  uint32_t found;
};
constinit Loader loader{};

// What we export although an older C library, or musl, may lack it. There is no other copy to forward to, so a null
// wrapper_for says: answer with what was found, provided that it is not ours alone.
constexpr HookedName kNotEverywhere[] = {{"__read_chk", nullptr, nullptr},     {"__recv_chk", nullptr, nullptr},
                                         {"__recvfrom_chk", nullptr, nullptr}, {"close_range", nullptr, nullptr},
                                         {"closefrom", nullptr, nullptr},      {"dlvsym", nullptr, nullptr},
                                         {"fcntl64", nullptr, nullptr},        {"sendfile64", nullptr, nullptr}};

// Positions in the tables put together, plus one, by hash of the name. Every thread that builds it writes the same.
constexpr size_t kSlots = 1024;
constexpr size_t kMostNames = kSlots / 2;
constinit uint16_t index_of_names[kSlots]{};
constinit uint32_t index_is_built = 0;

uint32_t hash_of(const char* name) {
  uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash ^ (hash >> 15);
}

const HookedName* name_at(size_t position) {
  const HookTable tables[] = {{kNotEverywhere, sizeof(kNotEverywhere) / sizeof(kNotEverywhere[0])},
                              nccl_hook_table(),
                              profiler_hook_table(),
                              verbs_hook_table()};
  for (const HookTable& table : tables) {
    if (position < table.count) return table.names + position;
    position -= table.count;
  }
  return nullptr;
}

// Two threads that build at once put every name into the same slot: each sees the slots of the names before it taken.
__attribute__((noinline)) void build_index() {
  for (size_t position = 0; position < kMostNames; ++position) {
    const HookedName* name = name_at(position);
    if (name == nullptr) break;
    const auto entry = static_cast<uint16_t>(position + 1);
    uint32_t slot = hash_of(name->name) % kSlots;
    for (;; slot = (slot + 1) % kSlots) {
      const uint16_t taken = __atomic_load_n(&index_of_names[slot], __ATOMIC_RELAXED);
      if (taken == 0 || taken == entry) break;
    }
    __atomic_store_n(&index_of_names[slot], entry, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&index_is_built, 1u, __ATOMIC_RELEASE);
}

// A table's version bars other versions; a request without one means the library's default.
const HookedName* find_name(const char* name, const char* version) {
  if (__atomic_load_n(&index_is_built, __ATOMIC_ACQUIRE) == 0) build_index();
  for (uint32_t slot = hash_of(name) % kSlots;; slot = (slot + 1) % kSlots) {
    const uint16_t entry = __atomic_load_n(&index_of_names[slot], __ATOMIC_RELAXED);
    if (entry == 0) return nullptr;
    const HookedName* hooked = name_at(entry - 1u);
    if (!same_text(hooked->name, name)) continue;
    if (version == nullptr || hooked->version == nullptr || same_text(hooked->version, version)) return hooked;
  }
}

bool is_ours(const void* address) {
  return address >= static_cast<const void*>(__ehdr_start) && address < static_cast<const void*>(_end);
}

// The first definition after this library, which is the one a program without us would call; when we are behind the C
// library (opened late), any but ours.
void* search(const link_map* ours, const char* name) {
  for (const link_map* start : {ours, first_object()})
    for (const link_map* object = start; object != nullptr; object = object->l_next) {
      if (is_ours(object->l_ld)) continue;
      if (void* found = LoadedObject(object->l_addr, object->l_ld).find(name)) return found;
    }
  return nullptr;
}

__attribute__((noinline)) void find_loader() {
  const link_map* ours = first_object();
  while (ours != nullptr && !is_ours(ours->l_ld)) ours = ours->l_next;
  loader.dlsym = reinterpret_cast<Dlsym*>(search(ours, "dlsym"));
  loader.dlvsym = reinterpret_cast<Dlvsym*>(search(ours, "dlvsym"));
  for (const link_map* object = first_object(); object != nullptr; object = object->l_next)
    loader.last_at_start = object->l_ld;
  __atomic_store_n(&loader.found, 1u, __ATOMIC_RELEASE);
}

const Loader& real() {
  if (__atomic_load_n(&loader.found, __ATOMIC_ACQUIRE) == 0) [[unlikely]]
    find_loader();
  return loader;
}

__attribute__((constructor)) void find_before_the_program() {
  real();
}

struct Request {
  void* handle;
  const char* name;
  const char* version;  // null: dlsym
  const void* caller;
};

void* ask(const Request& request, void* handle) {
  return request.version == nullptr ? real().dlsym(handle, request.name)
                                    : real().dlvsym(handle, request.name, request.version);
}

// Walks the objects in the order in which RTLD_NEXT does.
struct Walk {
  const Request& request;
  bool caller_seen;  // and stands before us
  bool ours_seen;
  bool start_seen;       // what was there when the program began has been walked
  bool caller_is_later;  // it was opened since, so that it may see more than the whole program does
  void* between;         // a definition after the caller and before us
  void* elsewhere;       // a definition in any object but ours
};

bool contains(const dl_phdr_info& object, const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (unsigned i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && at - (object.dlpi_addr + part.p_vaddr) < part.p_memsz) return true;
  }
  return false;
}

int visit(dl_phdr_info* object, size_t, void* out) {
  auto& walk = *static_cast<Walk*>(out);
  if (contains(*object, &loader)) {
    walk.ours_seen = true;
    walk.start_seen = walk.start_seen || is_ours(real().last_at_start);
    return 0;
  }
  const ElfW(Dyn)* dynamic = nullptr;
  for (unsigned i = 0; i < object->dlpi_phnum; ++i)
    if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
  void* found = LoadedObject(object->dlpi_addr, dynamic).find(walk.request.name, walk.request.version);
  if (walk.elsewhere == nullptr) walk.elsewhere = found;
  if (walk.caller_seen && !walk.ours_seen && walk.between == nullptr) walk.between = found;
  if (contains(*object, walk.request.caller)) {
    walk.caller_seen = !walk.ours_seen;
    walk.caller_is_later = walk.start_seen;
  }
  if (dynamic == real().last_at_start) walk.start_seen = true;
  return 0;
}

Walk walk_objects(const Request& request) {
  Walk walk{request, false, false, false, false, nullptr, nullptr};
  dl_iterate_phdr(visit, &walk);
  return walk;
}

void* wrap(const HookedName& hooked, void* found) {
  return hooked.wrapper_for == nullptr || !dl_hook_is_active() ? found : hooked.wrapper_for(found);
}

// The program asked a pseudo-handle or the whole program, and found what we export. What would it have found without
// us? The failing request is the last one to the loader, so that dlerror has its say.
DlRoute behind_ours(const Request& request, const HookedName& hooked, void* ours) {
  if (void* next = ask(request, RTLD_NEXT)) return {nullptr, hooked.wrapper_for == nullptr ? ours : wrap(hooked, next)};
  // RTLD_DEFAULT includes what the caller's own group of libraries brought along, in an order that only the loader
  // knows.
  if (request.handle != RTLD_DEFAULT) return {nullptr, nullptr};
  const Walk walk = walk_objects(request);
  if (!walk.caller_is_later || walk.elsewhere == nullptr) return {nullptr, nullptr};
  dlerror();
  return {nullptr, wrap(hooked, walk.elsewhere)};
}

DlRoute route_next(const Request& request, void* target) {
  const Walk walk = walk_objects(request);
  if (!walk.caller_seen || walk.between != nullptr) return {target, nullptr};
  // The caller stands before us: it would find us next. That is right when there is something behind us.
  return ask(request, RTLD_NEXT) != nullptr ? DlRoute{target, nullptr} : DlRoute{nullptr, nullptr};
}

DlRoute route(const Request& request, void* target) {
  if (request.name == nullptr || target == nullptr || is_ours(request.caller)) return {target, nullptr};
  const HookedName* hooked = find_name(request.name, request.version);
  if (hooked == nullptr) [[likely]]
    return {target, nullptr};
  if (request.handle == RTLD_NEXT) return route_next(request, target);
  void* found = ask(request, request.handle);
  if (is_ours(found)) return hooked->own ? DlRoute{nullptr, found} : behind_ours(request, *hooked, found);
  if (found != nullptr) return {nullptr, wrap(*hooked, found)};
  // We do not export it to this request. Only the loader knows what else the caller's group of libraries offers.
  return request.handle == RTLD_DEFAULT ? DlRoute{target, nullptr} : DlRoute{nullptr, nullptr};
}

}  // namespace

void* loader_symbol(void* handle, const char* name) {
  return real().dlsym != nullptr ? real().dlsym(handle, name) : nullptr;
}

void* loader_symbol(void* handle, const char* name, const char* version) {
  return real().dlvsym != nullptr ? real().dlvsym(handle, name, version) : nullptr;
}

bool dl_hook_is_active() {
  return real().dlvsym != nullptr && !is_switched_off();
}

}  // namespace orrery::preload

using namespace orrery::preload;

extern "C" DlRoute orrery_route_dlsym(void* handle, const char* name, const void* caller) {
  return route({handle, name, nullptr, caller}, reinterpret_cast<void*>(real().dlsym));
}

extern "C" DlRoute orrery_route_dlvsym(void* handle, const char* name, const char* version, const void* caller) {
  auto* target = reinterpret_cast<void*>(real().dlvsym);
  if (version == nullptr) return {target, nullptr};
  return route({handle, name, version, caller}, target);
}
