// The monotonic clock of process.h, read through the processor's own counter where that can be trusted: half the price.
//
// Calibrated on the control path and by the ticks of the hooks (every 250 ms while there is traffic); until then, and
// where the counter is not invariant, the system's clock is read. Error: the drift between two calibrations, below
// 20 us, and the first read after a pause is made after a fresh calibration (see verbs_data.cpp). Times of one thread
// may step back by that error: compare them signed.
#pragma once

#include <stdint.h>

#include "agent/preload/process.h"

namespace orrery::preload {

struct ClockScale {
  uint64_t base_ticks;
  uint64_t base_ns;
  uint64_t ns_per_tick_32;  // fixed point, 32 fractional bits; 0: not usable
};
// A reader that is late by fewer than four calibrations sees one it does not tear.
inline constexpr uint32_t kClockScales = 4;
extern ClockScale clock_scales[kClockScales];
extern uint32_t clock_scale;  // the one in use

// Takes the next step of calibrating. Keeps errno; no system call after the first call.
void calibrate_clock();
// In a forked child: another thread of the parent may have been calibrating.
void start_clock_anew();

inline uint64_t processor_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

inline uint64_t fast_now_ns() {
  const ClockScale& scale = clock_scales[__atomic_load_n(&clock_scale, __ATOMIC_ACQUIRE)];
  const uint64_t factor = __atomic_load_n(&scale.ns_per_tick_32, __ATOMIC_RELAXED);
  if (factor == 0) [[unlikely]]
    return now_ns();
  const auto ticks = static_cast<int64_t>(processor_ticks() - __atomic_load_n(&scale.base_ticks, __ATOMIC_RELAXED));
  const uint64_t base = __atomic_load_n(&scale.base_ns, __ATOMIC_RELAXED);
  if (ticks < 0) [[unlikely]]
    return base;
  return base + static_cast<uint64_t>((static_cast<unsigned __int128>(ticks) * factor) >> 32);
}

}  // namespace orrery::preload
