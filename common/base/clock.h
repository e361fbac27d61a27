// Clock readings in nanoseconds. Wire messages carry TAI; shared memory and leases on one host use CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <ctime>

namespace orrery {

inline uint64_t read_clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t monotonic_now_ns() {
  return read_clock_ns(CLOCK_MONOTONIC);
}
inline uint64_t tai_now_ns() {
  return read_clock_ns(CLOCK_TAI);
}

}  // namespace orrery
