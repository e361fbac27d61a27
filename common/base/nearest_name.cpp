#include "common/base/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace orrery {
namespace {

// Levenshtein distance with one row of state.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> valid) {
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (std::string_view name : valid) {
    const size_t distance = edit_distance(wrong, name);
    const size_t plausible = std::max<size_t>(2, std::max(wrong.size(), name.size()) / 3);
    if (distance <= plausible && distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  if (!best.empty() || wrong.size() < 3) return best;
  // What was cut short: "mtu" for "mtu_bytes".
  for (std::string_view name : valid)
    if (name.starts_with(wrong)) return name;
  return best;
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> valid) {
  const std::string_view best = nearest_name(wrong, valid);
  return best.empty() ? std::string() : fmt::format(", did you mean '{}'?", best);
}

}  // namespace orrery
