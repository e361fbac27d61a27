// Element arithmetic of every NCCL data type and reduction, on host memory. Pure functions; buffers need no alignment
// beyond the element's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/lab/hostnccl/include/nccl.h"

namespace orrery::hostnccl {

// Bytes of one element; 0 for a value outside ncclDataType_t.
size_t element_bytes(ncclDataType_t type);

// A reduction as the ring carries it out. Integers average by dividing the finished sum (truncating); floating types
// scale every rank's input by 1/nranks first, as NCCL does, so that large sums do not overflow.
struct Reduction {
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t combine = ncclSum;  // sum, prod, max or min
  bool scales_input = false;
  uint64_t scalar_bits = 0;  // one element of `type`, in its first bytes
  int divisor = 1;           // applied by finish()

  // True when a finished value must go through finish().
  bool has_finish() const { return divisor != 1; }
};

// `op` is a built-in operation (sum ... avg).
Reduction make_reduction(ncclRedOp_t op, ncclDataType_t type, int nranks);
// A pre-multiplied sum; `scalar` points at one element of `type`.
Reduction make_premultiplied_sum(ncclDataType_t type, const void* scalar);

// out[i] = input[i], scaled when the reduction scales inputs. `out` may equal `input`.
void load_input(const Reduction& reduction, void* out, const void* input, size_t count);
// out[i] = partial[i] combined with input[i] (scaled first). `out` may equal `partial` or `input`.
void combine(const Reduction& reduction, void* out, const void* partial, const void* input, size_t count);
// Divides in place.
void finish(const Reduction& reduction, void* values, size_t count);

// IEEE binary16 and bfloat16 as bit patterns; conversion to them rounds to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

}  // namespace orrery::hostnccl
