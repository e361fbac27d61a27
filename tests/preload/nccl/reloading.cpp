// Opens a framework, uses it and closes it, again and again, each time the other of two: `reloading PATH PATH`.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "tests/preload/nccl/framework.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  for (int i = 0; i < 6; ++i) {
    void* library = dlopen(argv[1 + i % 2], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 3;
    const Framework& nccl = *reinterpret_cast<decltype(&framework)>(dlsym(library, "framework"))();
    ncclUniqueId id;
    std::memset(&id, 1, sizeof(id));
    ncclComm_t comm = nullptr;
    int version = 0;
    std::printf("init %d", nccl.init(&comm, 2, id, 0));
    std::printf(" version %d", nccl.get_version(&version));
    std::printf(" %d", version);
    std::printf(" start %d", nccl.start());
    std::printf(" reduce %d", nccl.all_reduce(nullptr, nullptr, 1, ncclFloat, ncclSum, comm, nullptr));
    std::printf(" end %d", nccl.end());
    std::printf(" destroy %d\n", nccl.destroy(comm));
    dlclose(library);
  }
  return 0;
}
