// A fixed table from an object of the program to what we keep for it. Looking up takes no lock; adding and removing are
// serialised by the caller. An entry stays where it is for as long as its key is in the table.
#pragma once

#include <stdint.h>

namespace orrery::preload {

// `Entry` has a member `const void* key`, null when free. kEntries is a power of two.
template <typename Entry, uint32_t kEntries, uint32_t kProbes = 64>
class PointerTable {
 public:
  // Null when there is none. A removed entry leaves a gap in a chain of probes, so all of them are looked at.
  Entry* find(const void* key) {
    for (uint32_t i = 0; i < kProbes; ++i) {
      Entry& entry = entries_[(home_of(key) + i) & (kEntries - 1)];
      if (__atomic_load_n(&entry.key, __ATOMIC_ACQUIRE) == key) return &entry;
    }
    return nullptr;
  }

  // A free place for a key that is not in the table; null when there is none. It is found by others once publish() was
  // called.
  Entry* place_for(const void* key) {
    for (uint32_t i = 0; i < kProbes; ++i) {
      Entry& entry = entries_[(home_of(key) + i) & (kEntries - 1)];
      if (entry.key == nullptr) return &entry;
    }
    return nullptr;
  }
  static void publish(Entry& entry, const void* key) { __atomic_store_n(&entry.key, key, __ATOMIC_RELEASE); }
  static void remove(Entry& entry) { publish(entry, nullptr); }

 private:
  static uint32_t home_of(const void* key) {
    return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(key) >> 4) * 0x9e3779b97f4a7c15ull >> 40);
  }

  Entry entries_[kEntries];
};

}  // namespace orrery::preload
