// How the children of the hook benchmarks measure and tell what one call costs.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace orrery::bench {

// Nanoseconds of one call. `p999`: of calls timed one by one, the clock's own cost included.
struct Cost {
  double median = 0;
  double p999 = 0;
};

inline double quantile(std::vector<double> values, double part) {
  const auto at = static_cast<size_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<long>(at), values.end());
  return values[at];
}

// Batches with a pause after each, in which the reader of the events catches up.
template <typename Call, typename Pause>
Cost measure(int batch, int batches, Call call, Pause pause) {
  std::vector<double> means, singles;
  for (int i = 0; i < batches; ++i) {
    const uint64_t start = monotonic_now_ns();
    for (int j = 0; j < batch; ++j) call();
    means.push_back(static_cast<double>(monotonic_now_ns() - start) / batch);
    pause();
    for (int j = 0; j < batch; ++j) {
      const uint64_t before = monotonic_now_ns();
      call();
      singles.push_back(static_cast<double>(monotonic_now_ns() - before));
    }
    pause();
  }
  return {quantile(means, 0.5), quantile(singles, 0.999)};
}

inline void tell(const char* what, const Cost& cost) {
  std::printf("%s %.3f %.3f\n", what, cost.median, cost.p999);
}
// False when `text` does not tell of `what`.
inline bool told(const std::string& text, const std::string& what, Cost* cost) {
  const size_t at = text.find(what + " ");
  return at != std::string::npos &&
         std::sscanf(text.c_str() + at + what.size(), "%lf %lf", &cost->median, &cost->p999) == 2;
}

}  // namespace orrery::bench
