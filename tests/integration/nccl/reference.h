// Plain collectives to compare with: element values as doubles, one loop over the ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/lab/hostnccl/include/nccl.h"

namespace orrery::test {

inline constexpr ncclDataType_t kTypes[] = {ncclInt8,   ncclUint8,   ncclInt32,   ncclUint32,  ncclInt64,
                                            ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16};

size_t bytes_of(ncclDataType_t type);
bool is_integer(ncclDataType_t type);

// Element `index` of rank `rank`'s input: a small whole number, exact in every type.
double input_value(ncclDataType_t type, int rank, size_t index);
// What `op` makes of all ranks' inputs; `scale` multiplies each input (pre-multiplied sums; 1 otherwise).
double reduced_value(ncclDataType_t type, ncclRedOp_t op, int nranks, size_t index, double scale);

std::vector<unsigned char> encode(ncclDataType_t type, const std::vector<double>& values);
// Empty when `data` holds `expected` (within rounding of `nranks` steps), else the first difference.
std::string first_difference(ncclDataType_t type, const void* data, const std::vector<double>& expected, int nranks);

}  // namespace orrery::test
