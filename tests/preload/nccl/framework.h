// A library that uses NCCL the way frameworks do: it calls the exported names, and contains a copy or needs one.
#pragma once

#include "tests/preload/nccl/nccl_api.h"

struct Framework {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclCommInitRank) init;
  decltype(&ncclGroupStart) start;
  decltype(&ncclGroupEnd) end;
  decltype(&ncclGroupEnd) end_by_jump;  // its caller's return address is what NCCL sees
  decltype(&ncclSend) send;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclBcast) broadcast;
  decltype(&ncclCommDestroy) destroy;
};
extern "C" const Framework* framework();
