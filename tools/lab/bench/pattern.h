// Test data that repeats every kPeriod elements, so that filling and checking cost a memcpy and a memcmp. The period is
// prime: a chunk, slice or block in the wrong place has the wrong phase. Values are small integers, exact in every
// type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tools/lab/bench/options.h"

namespace orrery::bench {

inline constexpr size_t kPeriod = 4093;

class Pattern {
 public:
  // `value(i)` for i in [0, kPeriod); integers wrap into the type.
  Pattern(ncclDataType_t type, const std::function<double(size_t)>& value);

  // Elements [0, count) of `out` become the pattern from `phase` on.
  void fill(void* out, size_t count, size_t phase) const;
  // Elements that differ by more than `tolerance` (relative).
  size_t count_wrong(const void* data, size_t count, size_t phase, double tolerance) const;

 private:
  template <typename F>
  void each_run(size_t count, size_t phase, F function) const;

  ncclDataType_t type_;
  size_t element_bytes_;
  std::vector<unsigned char> table_;
};

// One rank's input for a reduction, and what the reduction of all ranks' inputs is.
double reduction_input(ncclRedOp_t op, size_t index, int rank, int nranks);
double reduction_result(ncclRedOp_t op, ncclDataType_t type, size_t index, int nranks);
// One rank's data for a collective that only moves it.
double moved_value(size_t index, int rank);
// How far a correct library may be off: rounding of `nranks` additions.
double tolerance_of(ncclDataType_t type, int nranks);

}  // namespace orrery::bench
