// The functions of nccl_functions.inc as numbers, names and types.
#pragma once

#include <stdint.h>

#include "agent/preload/nccl_abi.h"

namespace orrery::preload {

#define COLLECTIVE(name, parameters, arguments, ...) k##name,
#define FORWARD(name, communicator, parameters, arguments) k##name,
#define OWN(result, name, communicator, parameters, arguments) k##name,
enum NcclFunction : uint32_t {
#include "agent/preload/nccl_functions.inc"
  kNcclFunctions
};

#define COLLECTIVE(name, parameters, arguments, ...) "nccl" #name,
#define FORWARD(name, communicator, parameters, arguments) "nccl" #name,
#define OWN(result, name, communicator, parameters, arguments) "nccl" #name,
inline constexpr const char* kNcclNames[kNcclFunctions] = {
#include "agent/preload/nccl_functions.inc"
};

template <NcclFunction kFunction>
struct NcclTypeOf;
#define NCCL_TYPE(result, name, parameters) \
  template <>                               \
  struct NcclTypeOf<k##name> {              \
    using Type = result parameters;         \
  };
#define COLLECTIVE(name, parameters, arguments, ...) NCCL_TYPE(ncclResult_t, name, parameters)
#define FORWARD(name, communicator, parameters, arguments) NCCL_TYPE(ncclResult_t, name, parameters)
#define OWN(result, name, communicator, parameters, arguments) NCCL_TYPE(result, name, parameters)
#include "agent/preload/nccl_functions.inc"
#undef NCCL_TYPE

template <NcclFunction kFunction>
using NcclType = typename NcclTypeOf<kFunction>::Type;

}  // namespace orrery::preload
