// The libraries of dl_probe: compiled once per role.
#include <dlfcn.h>
#include <stdio.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

#if defined(ROLE_PLAIN)  // what a layer wraps, without versions
EXPORT int orrery_test_plain() {
  return 1;
}
EXPORT int orrery_test_other() {
  return 2;
}
#elif defined(ROLE_VERSIONED)  // the same, with a body of an older ABI
EXPORT int old_body() {
  return 10;
}
EXPORT int new_body() {
  return 11;
}
__asm__(".symver old_body, orrery_test_versioned@TEST_1.0");
__asm__(".symver new_body, orrery_test_versioned@@TEST_1.1");
#elif defined(ROLE_NEXT)       // another interposer
EXPORT void* next_of(const char* name) {
  return dlsym(RTLD_NEXT, name);
}
EXPORT int orrery_test_other() {
  return 3;
}
#elif defined(ROLE_PRIVATE)    // a python extension: opened RTLD_LOCAL, brings the wrapped library along
EXPORT void* default_of(const char* name) {
  void* volatile found = dlsym(RTLD_DEFAULT, name);
  return found;
}
#elif defined(ROLE_EARLY)      // asks before the hook's own constructor has run
__attribute__((constructor)) static void ask() {
  printf("early: malloc %d, missing %d\n", dlsym(RTLD_DEFAULT, "malloc") != nullptr,
         dlsym(RTLD_DEFAULT, "orrery_test_plain") == nullptr);
  fflush(stdout);
}
#endif
