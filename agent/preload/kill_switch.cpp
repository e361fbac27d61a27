#include "agent/preload/kill_switch.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>

namespace orrery::preload {
namespace {

enum Answer : uint32_t { kUnknown = 0, kOn = 1, kSwitchedOff = 2 };
uint32_t answer = kUnknown;

bool is_set(const char* value) {
  return value != nullptr && *value != '\0' && !(value[0] == '0' && value[1] == '\0');
}

}  // namespace

bool is_switched_off() {
  uint32_t known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (known == kUnknown) [[unlikely]] {
    known = is_set(getenv("ORRERY_DISABLE")) || getauxval(AT_SECURE) != 0 ? kSwitchedOff : kOn;
    __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
  }
  return known == kSwitchedOff;
}

}  // namespace orrery::preload
