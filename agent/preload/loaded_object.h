// One object of the process as its dynamic section describes it, and the lookup of a name in it without the loader.
//
// Why not the loader's own functions: the hook of dlsym needs the real dlsym before it can ask for anything, it may be
// called while other libraries' interceptors are half set up (sanitizers), and it must not lock or allocate then.
// Source: the ELF gABI's symbol and hash tables, the GNU hash section, and Drepper's symbol versioning.
#pragma once

#include <link.h>
#include <stddef.h>
#include <stdint.h>

namespace orrery::preload {

// What the process has loaded, in the loader's order; null where the C library does not publish it. Unlocked: only for
// what is there from the start of the process and never unloaded.
const link_map* first_object();

class LoadedObject {
 public:
  LoadedObject(uintptr_t base, const ElfW(Dyn) * dynamic);

  // The address of the function `name` as a request without version finds it (the default version; else any), or of
  // `version` alone. Null when the object does not define it.
  void* find(const char* name, const char* version = nullptr) const;

 private:
  struct Wanted {
    const char* name;
    const char* version;
    void* found;
    bool found_default;
  };
  void consider(uint32_t index, Wanted& wanted) const;
  void search_gnu(Wanted& wanted) const;
  void search_sysv(Wanted& wanted) const;
  bool has_version(uint16_t index, const char* version) const;

  uintptr_t base_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint32_t* gnu_hash_ = nullptr;
  const uint32_t* sysv_hash_ = nullptr;
  const uint16_t* versions_ = nullptr;
  const ElfW(Verdef) * definitions_ = nullptr;
};

bool same_text(const char* a, const char* b);

}  // namespace orrery::preload
