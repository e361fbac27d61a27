#include "agent/preload/loaded_object.h"

// Both names are weak: glibc has the first, musl the second. They are data, so that reading them runs nobody's code.
extern r_debug _r_debug __attribute__((weak));
extern "C" r_debug* _dl_debug_addr __attribute__((weak));

namespace orrery::preload {
namespace {

constexpr uint16_t kHidden = 0x8000;
constexpr uint16_t kLocal = 0;

uint32_t gnu_hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

uint32_t sysv_hash_of(const char* name) {
  uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    const uint32_t high = hash & 0xf0000000u;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  return hash;
}

}  // namespace

bool same_text(const char* a, const char* b) {
  for (; *a == *b; ++a, ++b)
    if (*a == '\0') return true;
  return false;
}

const link_map* first_object() {
  if (&_r_debug != nullptr) return _r_debug.r_map;
  if (&_dl_debug_addr != nullptr && _dl_debug_addr != nullptr) return _dl_debug_addr->r_map;
  return nullptr;
}

LoadedObject::LoadedObject(uintptr_t base, const ElfW(Dyn) * dynamic) : base_(base) {
  if (dynamic == nullptr) return;
  // glibc has turned most of these into addresses already, musl has not, and neither has where the section is
  // read-only.
  const auto at = [&](ElfW(Addr) value) { return value < base ? value + base : value; };
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const ElfW(Addr) value = dynamic->d_un.d_ptr;
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        symbols_ = reinterpret_cast<const ElfW(Sym)*>(at(value));
        break;
      case DT_STRTAB:
        strings_ = reinterpret_cast<const char*>(at(value));
        break;
      case DT_GNU_HASH:
        gnu_hash_ = reinterpret_cast<const uint32_t*>(at(value));
        break;
      case DT_HASH:
        sysv_hash_ = reinterpret_cast<const uint32_t*>(at(value));
        break;
      case DT_VERSYM:
        versions_ = reinterpret_cast<const uint16_t*>(at(value));
        break;
      case DT_VERDEF:
        definitions_ = reinterpret_cast<const ElfW(Verdef)*>(at(value));
        break;
    }
  }
}

void* LoadedObject::find(const char* name, const char* version) const {
  Wanted wanted{name, version, nullptr, false};
  if (symbols_ == nullptr || strings_ == nullptr) return nullptr;
  if (gnu_hash_ != nullptr)
    search_gnu(wanted);
  else if (sysv_hash_ != nullptr)
    search_sysv(wanted);
  return wanted.found;
}

void LoadedObject::consider(uint32_t index, Wanted& wanted) const {
  const ElfW(Sym)& symbol = symbols_[index];
  if (wanted.found_default || symbol.st_shndx == SHN_UNDEF || (symbol.st_info & 0xf) != STT_FUNC ||
      !same_text(strings_ + symbol.st_name, wanted.name))
    return;
  const uint16_t version = versions_ != nullptr ? versions_[index] : 1;
  if ((version & ~kHidden) == kLocal) return;
  if (wanted.version != nullptr && versions_ != nullptr && !has_version(version & ~kHidden, wanted.version)) return;
  wanted.found = reinterpret_cast<void*>(base_ + symbol.st_value);
  wanted.found_default = wanted.version != nullptr || (version & kHidden) == 0;
}

bool LoadedObject::has_version(uint16_t index, const char* version) const {
  for (const ElfW(Verdef)* definition = definitions_; definition != nullptr;) {
    const auto* bytes = reinterpret_cast<const char*>(definition);
    if (definition->vd_ndx == index) {
      const auto* name = reinterpret_cast<const ElfW(Verdaux)*>(bytes + definition->vd_aux);
      return same_text(strings_ + name->vda_name, version);
    }
    if (definition->vd_next == 0) return false;
    definition = reinterpret_cast<const ElfW(Verdef)*>(bytes + definition->vd_next);
  }
  return false;
}

// Header: buckets, first hashed symbol, words of the Bloom filter, its shift; filter, buckets, then a hash per symbol
// whose lowest bit ends a bucket's chain.
void LoadedObject::search_gnu(Wanted& wanted) const {
  const uint32_t bucket_count = gnu_hash_[0], first = gnu_hash_[1], filter_words = gnu_hash_[2];
  const uint32_t* buckets = gnu_hash_ + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* hashes = buckets + bucket_count;
  if (bucket_count == 0) return;
  const uint32_t hash = gnu_hash_of(wanted.name);
  uint32_t index = buckets[hash % bucket_count];
  if (index < first) return;
  for (;; ++index) {
    const uint32_t entry = hashes[index - first];
    if ((entry | 1u) == (hash | 1u)) consider(index, wanted);
    if ((entry & 1u) != 0) return;
  }
}

// Header: buckets, symbols; buckets, then the next symbol of each chain.
void LoadedObject::search_sysv(Wanted& wanted) const {
  const uint32_t bucket_count = sysv_hash_[0], symbol_count = sysv_hash_[1];
  const uint32_t* buckets = sysv_hash_ + 2;
  const uint32_t* next = buckets + bucket_count;
  if (bucket_count == 0) return;
  uint32_t index = buckets[sysv_hash_of(wanted.name) % bucket_count];
  for (; index != STN_UNDEF && index < symbol_count; index = next[index]) consider(index, wanted);
}

}  // namespace orrery::preload
