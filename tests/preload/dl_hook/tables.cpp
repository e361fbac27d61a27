// The hook with tables of its own instead of the layers': what is wrapped answers 1000 more.
#include "agent/preload/hook_names.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace orrery::preload {
namespace {

using Answer = int();
Answer* real_plain = nullptr;
Answer* real_versioned = nullptr;

int wrapped_plain() {
  return 1000 + real_plain();
}
int wrapped_versioned() {
  return 1000 + real_versioned();
}

void* wrap_plain(void* real) {
  real_plain = reinterpret_cast<Answer*>(real);
  return reinterpret_cast<void*>(&wrapped_plain);
}
void* wrap_versioned(void* real) {
  real_versioned = reinterpret_cast<Answer*>(real);
  return reinterpret_cast<void*>(&wrapped_versioned);
}

constexpr HookedName kFirst[] = {{"orrery_test_plain", nullptr, wrap_plain},
                                 {"orrery_test_lacking", nullptr, wrap_plain}};
constexpr HookedName kSecond[] = {{"orrery_test_versioned", "TEST_1.1", wrap_versioned}};

}  // namespace

HookTable nccl_hook_table() {
  return {kFirst, 2};
}
HookTable verbs_hook_table() {
  return {kSecond, 1};
}

}  // namespace orrery::preload

// Wrappers that a layer exports as well; no dlsym may ever come back with them.
EXPORT int orrery_test_plain() {
  return 666;
}
EXPORT int orrery_test_lacking() {
  return 666;
}
