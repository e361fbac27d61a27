// What the simulator counts in. Times are picoseconds: a byte is a whole number of them at every Ethernet rate.
#pragma once

#include <cstdint>

namespace orrery::sim {

using Time = uint64_t;
inline constexpr Time kPerNs = 1'000;
inline constexpr Time kPerUs = 1'000'000;
inline constexpr Time kPerMs = 1'000'000'000;
inline constexpr Time kNever = ~Time{0};
inline constexpr uint32_t kNone = 0xffffffff;

inline constexpr uint32_t kMaxPathLinks = 8;  // a five-tier fabric
struct PathLinks {
  uint32_t links[kMaxPathLinks];  // ends with kNone when shorter
};

}  // namespace orrery::sim
