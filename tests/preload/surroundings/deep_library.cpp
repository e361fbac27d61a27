// What a program opens with RTLD_DEEPBIND: it prefers its own libraries to anything preloaded, dlsym included.
#include <dlfcn.h>

#include <cstdio>
#include <initializer_list>

#include "tests/preload/nccl_calls.h"

extern "C" __attribute__((visibility("default"))) void deep_tour() {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  std::printf("init %d %d\n", ncclGetUniqueId(&id), ncclCommInitRank(&comm, 2, id, 0));
  for (int i = 0; i < 3; ++i) std::printf("reduce %d\n", ncclAllReduce(nullptr, nullptr, 10, 7, 0, comm, nullptr));
  using Version = int(int*);
  for (void* handle : {RTLD_DEFAULT, RTLD_NEXT}) {
    int version = 0;
    auto* get = reinterpret_cast<Version*>(dlsym(handle, "ncclGetVersion"));
    std::printf("found %d %d\n", get != nullptr ? get(&version) : -1, version);
    std::printf("lacks %d\n", dlsym(handle, "ncclNothing") == nullptr);
  }
  std::printf("destroy %d, %ld calls\n", ncclCommDestroy(comm), fake_nccl_calls());
  std::fflush(stdout);
}
