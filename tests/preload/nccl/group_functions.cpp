// The part of a copy of NCCL that a static link may leave in a library: its groups, without what is done in them.
#include <cstdio>
#include <cstdlib>

#include "tests/preload/nccl/nccl_api.h"

static __thread int level = 0;

static void note(const char* function) {
  if (std::getenv("FAKE_NCCL_TRACE") == nullptr) return;
  std::printf("groups: %s level %d\n", function, level);
  std::fflush(stdout);
}

#define FAKE_API extern "C" __attribute__((visibility("default"), weak))

FAKE_API ncclResult_t ncclGroupStart() {
  note("ncclGroupStart");
  ++level;
  return ncclSuccess;
}
FAKE_API ncclResult_t ncclGroupEnd() {
  note("ncclGroupEnd");
  return level-- > 0 ? ncclSuccess : ncclInvalidUsage;
}
