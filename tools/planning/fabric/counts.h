// Cables, ports and rates, as designs and lists of hosts count them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace orrery::planning {

inline uint32_t ceil_div(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>((a + b - 1) / b);
}

// Cables of `above_bps` each for what comes from below; at least one.
inline uint32_t cables_for(double below_bps, double oversubscription, uint64_t above_bps) {
  const double cables = below_bps / (oversubscription * static_cast<double>(above_bps));
  return static_cast<uint32_t>(std::clamp(std::ceil(cables - 1e-9), 1.0, 1e9));
}

// "400G"
inline std::string rate_text(uint64_t bps) {
  return fmt::format("{}G", static_cast<double>(bps) / 1e9);
}

}  // namespace orrery::planning
