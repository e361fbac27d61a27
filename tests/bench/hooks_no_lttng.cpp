// In place of hooks_lttng.cpp where LTTng-UST is not installed.
#include <cstdio>

#include "tests/bench/hooks_children.h"

namespace orrery::bench {

bool is_lttng_built_in() {
  return false;
}

int measure_lttng() {
  return kSkipped;
}

}  // namespace orrery::bench
