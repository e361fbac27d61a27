// Looks names up in every way a program can, and prints what it got. Run with and without the hook.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>

namespace {

using Answer = int();
using Find = void*(const char*);

std::string directory;
long allocations = 0;
bool counting = false;

void* open(const char* file, int flags) {
  void* handle = dlopen((directory + "/" + file).c_str(), RTLD_NOW | flags);
  if (handle == nullptr) {
    puts(dlerror());
    exit(2);
  }
  return handle;
}

void print(const char* what, void* found) {
  const char* error = dlerror();
  printf("%s %d%s%s\n", what, found != nullptr ? reinterpret_cast<Answer*>(found)() : -1, error != nullptr ? " " : "",
         error != nullptr ? error : "");
}

void print_missing(void* handle, const char* name) {
  const bool missing = dlsym(handle, name) == nullptr;
  const bool said = dlerror() != nullptr;
  printf("%s %d %d\n", name, missing, said);
}

void handle() {
  void* library = open("libdl_plain.so", RTLD_LOCAL);
  print("plain", dlsym(library, "orrery_test_plain"));
  print("other", dlsym(library, "orrery_test_other"));
  print("lacking", dlsym(library, "orrery_test_lacking"));
  printf("program %d\n", dlsym(dlopen(nullptr, RTLD_NOW), "orrery_test_plain") == nullptr);
}

void global() {
  open("libdl_plain.so", RTLD_GLOBAL);
  void* program = dlopen(nullptr, RTLD_NOW);
  print("default plain", dlsym(RTLD_DEFAULT, "orrery_test_plain"));
  print("program plain", dlsym(program, "orrery_test_plain"));
  for (const char* name : {"orrery_test_lacking", "orrery_test_nothing"})
    for (void* where : {static_cast<void*>(RTLD_DEFAULT), program}) print_missing(where, name);
}

void absent() {
  void* program = dlopen(nullptr, RTLD_NOW);
  for (const char* name : {"orrery_test_plain", "orrery_test_lacking"})
    for (void* where : {static_cast<void*>(RTLD_DEFAULT), program}) print_missing(where, name);
  print("unknown", dlsym(RTLD_DEFAULT, "orrery_test_nothing"));
}

void versioned() {
  void* library = open("libdl_versioned.so", RTLD_LOCAL);
  print("1.0", dlvsym(library, "orrery_test_versioned", "TEST_1.0"));
  print("1.1", dlvsym(library, "orrery_test_versioned", "TEST_1.1"));
  print("default", dlsym(library, "orrery_test_versioned"));
  printf("2.0 %d\n", dlvsym(library, "orrery_test_versioned", "TEST_2.0") == nullptr);
}

// What RTLD_NEXT gives to an interposer, which the loader tells from its return address.
void next() {
  auto* next_of = reinterpret_cast<Find*>(dlsym(RTLD_DEFAULT, "next_of"));  // preloaded
  printf("absent %d\n", next_of("orrery_test_plain") == nullptr);
  open("libdl_plain.so", RTLD_GLOBAL);
  print("other", next_of("orrery_test_other"));
  print("plain", next_of("orrery_test_plain"));
}

void in_private() {
  void* library = open("libdl_private.so", RTLD_LOCAL);
  auto* default_of = reinterpret_cast<Find*>(dlsym(library, "default_of"));
  print("other", default_of("orrery_test_other"));
  print("plain", default_of("orrery_test_plain"));
  printf("lacking %d\n", default_of("orrery_test_lacking") == nullptr);
}

void counted() {
  void* library = open("libdl_plain.so", RTLD_GLOBAL);
  allocations = 0;
  counting = true;
  for (int i = 0; i < 100; ++i) {
    dlsym(library, "orrery_test_other");
    dlsym(RTLD_DEFAULT, "orrery_test_other");
    dlsym(RTLD_NEXT, "printf");
  }
  counting = false;
  printf("allocations %ld\n", allocations);
}

}  // namespace

extern "C" void* __libc_malloc(size_t);
extern "C" void* malloc(size_t bytes) {
  allocations += counting;
  return __libc_malloc(bytes);
}

int main(int argc, char** argv) {
  const struct {
    const char* name;
    void (*run)();
  } cases[] = {{"handle", handle}, {"global", global},      {"absent", absent},  {"versioned", versioned},
               {"next", next},     {"private", in_private}, {"counted", counted}};
  directory = argc > 2 ? argv[2] : "";
  for (const auto& one : cases)
    if (argc > 2 && strcmp(argv[1], one.name) == 0) return one.run(), 0;
  return 2;
}
