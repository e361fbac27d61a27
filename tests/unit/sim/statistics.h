// How far a sample may stray from a theory before a test calls the theory broken.
#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace orrery::sim {

inline double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

inline double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// Of the mean of independent values.
inline double standard_error_of(const std::vector<double>& values) {
  return deviation_of(values) / std::sqrt(static_cast<double>(values.size()));
}

struct ChiSquare {
  double statistic = 0;
  double limit = 0;  // exceeded by one sample in 10,000 of the theory (Wilson and Hilferty's approximation)
};

// Classes of less than five expected counts join the next one, the last of them the one before.
inline ChiSquare chi_square(const std::vector<double>& expected, const std::vector<double>& counted) {
  std::vector<double> want, have;
  bool open = false;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!open) want.push_back(0), have.push_back(0);
    want.back() += expected[i], have.back() += counted[i];
    open = want.back() < 5;
  }
  if (open && want.size() > 1) {
    want[want.size() - 2] += want.back(), have[have.size() - 2] += have.back();
    want.pop_back(), have.pop_back();
  }
  ChiSquare result;
  for (size_t i = 0; i < want.size(); ++i) result.statistic += (have[i] - want[i]) * (have[i] - want[i]) / want[i];
  const double freedom = static_cast<double>(want.size()) - 1, part = 2 / (9 * freedom);
  result.limit = freedom * std::pow(1 - part + 3.719 * std::sqrt(part), 3);
  return result;
}

}  // namespace orrery::sim
