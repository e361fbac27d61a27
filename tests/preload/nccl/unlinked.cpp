// A program that calls NCCL but is linked with none: without the preload library its references are null. `unlinked
// PATH`: before and after NCCL is opened privately.
#include <dlfcn.h>

#include <cstdio>

#include "tests/preload/nccl/nccl_api.h"

#pragma weak ncclGetVersion
#pragma weak ncclGetErrorString
#pragma weak ncclGetLastError
#pragma weak ncclGroupStart
#pragma weak ncclCommGrow

int main(int argc, char** argv) {
  if (argc != 2 || ncclGetVersion == nullptr) return 2;
  int version = 0;
  std::printf("version %d %d\n", ncclGetVersion(&version), version);
  std::printf("start %d %d\n", ncclGroupStart(), ncclGroupStart());
  std::printf("error %s\n", ncclGetErrorString(ncclInvalidUsage));
  if (dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) == nullptr) return 3;
  std::printf("version %d", ncclGetVersion(&version));
  std::printf(" %d\n", version);
  std::printf("error %s\n", ncclGetErrorString(ncclInvalidUsage));
  std::printf("grow %d\n", ncclCommGrow(nullptr, 2, nullptr, 0, nullptr, nullptr));
  return 0;
}
