#include "agent/preload/verbs_clock.h"

#include <errno.h>
#include <sys/prctl.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace orrery::preload {

constinit ClockScale clock_scales[kClockScales] = {};
constinit uint32_t clock_scale = 0;

namespace {

constexpr uint64_t kLeastBaselineNs = 2000000;    // two readings of 50 ns error over 2 ms: 50 ppm
constexpr uint64_t kLongBaselineNs = 2000000000;  // then the older reading moves up: the system's clock is being slewed
constexpr uint64_t kMostDriftNs = 1000000;        // more than any drift: the counter or the clock has jumped

enum Trust : uint32_t { kUnknown, kTrusted, kRefused };

struct Reading {
  uint64_t ticks;
  uint64_t ns;
};

struct Calibration {
  uint32_t busy;
  Trust trust;
  Reading older, middle;  // `middle` is at least half a baseline younger
};
constinit Calibration calibration{};

bool counter_is_invariant() {
#if defined(__x86_64__)
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) == 0 || (edx & (1u << 8)) == 0) return false;
  int mode = 0;
  const int saved = errno;
  const bool readable = prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE;
  errno = saved;
  return readable;
#elif defined(__aarch64__)
  return true;
#endif
}

// The tightest of three pairs.
Reading read_both() {
  Reading best{};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = processor_ticks();
    const uint64_t ns = now_ns();
    const uint64_t after = processor_ticks();
    if (after - before < least) {
      least = after - before;
      best = {before + (after - before) / 2, ns};
    }
  }
  return best;
}

void use(const Reading& from, const Reading& to) {
  const uint64_t ticks = to.ticks - from.ticks, ns = to.ns - from.ns;
  if (ticks == 0 || to.ticks < from.ticks || to.ns < from.ns) return;
  const uint32_t next = (clock_scale + 1) % kClockScales;
  ClockScale& scale = clock_scales[next];
  __atomic_store_n(&scale.base_ticks, to.ticks, __ATOMIC_RELAXED);
  __atomic_store_n(&scale.base_ns, to.ns, __ATOMIC_RELAXED);
  __atomic_store_n(&scale.ns_per_tick_32, static_cast<uint64_t>((static_cast<unsigned __int128>(ns) << 32) / ticks),
                   __ATOMIC_RELAXED);
  __atomic_store_n(&clock_scale, next, __ATOMIC_RELEASE);
}

void start_again(const Reading& now) {
  const uint32_t next = (clock_scale + 1) % kClockScales;
  __atomic_store_n(&clock_scales[next].ns_per_tick_32, uint64_t{0}, __ATOMIC_RELAXED);
  __atomic_store_n(&clock_scale, next, __ATOMIC_RELEASE);
  calibration.older = calibration.middle = now;
}

bool has_jumped(const Reading& now) {
  if (clock_scales[clock_scale].ns_per_tick_32 == 0) return false;
  const auto error = static_cast<int64_t>(fast_now_ns() - now.ns);
  // Read later than `now` by as long as this thread was interrupted; only a step back or a large one tells.
  return error < -static_cast<int64_t>(kMostDriftNs) ||
         (error > static_cast<int64_t>(kMostDriftNs) && error > static_cast<int64_t>(now_ns() - now.ns + kMostDriftNs));
}

void step() {
  if (calibration.trust == kUnknown) {
    calibration.trust = counter_is_invariant() ? kTrusted : kRefused;
    if (calibration.trust == kTrusted) start_again(read_both());
    return;
  }
  if (calibration.trust == kRefused) return;
  const Reading now = read_both();
  if (has_jumped(now)) return start_again(now);
  if (now.ns - calibration.older.ns < kLeastBaselineNs) return;
  use(calibration.older, now);
  if (now.ns - calibration.middle.ns > kLongBaselineNs) {
    calibration.older = calibration.middle;
    calibration.middle = now;
  }
}

}  // namespace

void calibrate_clock() {
  if (__atomic_exchange_n(&calibration.busy, 1u, __ATOMIC_ACQUIRE) != 0) return;
  step();
  __atomic_store_n(&calibration.busy, 0u, __ATOMIC_RELEASE);
}

void start_clock_anew() {
  calibration.busy = 0;
}

}  // namespace orrery::preload
