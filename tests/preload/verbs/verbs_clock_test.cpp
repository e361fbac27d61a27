// The clock of the data path against the system's, in this process.
#include "agent/preload/verbs_clock.h"

#include <unistd.h>

#include <catch2/catch.hpp>

namespace orrery::preload {
namespace {

// Reads the clock between two readings of the system's; how far outside of them it is.
int64_t error_ns() {
  const uint64_t before = now_ns();
  const uint64_t between = fast_now_ns();
  const uint64_t after = now_ns();
  if (between < before) return static_cast<int64_t>(before - between);
  return between > after ? static_cast<int64_t>(between - after) : 0;
}

bool reads_the_counter() {
  return clock_scales[clock_scale].ns_per_tick_32 != 0;
}

constexpr int64_t kMostErrorNs = 1'000'000;

}  // namespace

TEST_CASE("the clock is the system's until it is calibrated, and agrees with it afterwards") {
  CHECK(error_ns() == 0);
  calibrate_clock();
  CHECK_FALSE(reads_the_counter());  // one reading gives no rate
  for (int i = 0; i < 50; ++i) {
    usleep(5000);
    calibrate_clock();
    CHECK(error_ns() < kMostErrorNs);
  }
}

TEST_CASE("a processor's counter that has jumped is not believed") {
  calibrate_clock();
  usleep(5000);
  calibrate_clock();
  if (!reads_the_counter()) return;  // this machine's counter is not invariant
  ClockScale& scale = clock_scales[clock_scale];
  scale.base_ns += 60'000'000'000;  // as if the machine had been suspended, and the two clocks disagreed on it
  CHECK(error_ns() > kMostErrorNs);
  calibrate_clock();
  CHECK(error_ns() == 0);
  CHECK_FALSE(reads_the_counter());
  usleep(5000);
  calibrate_clock();
  CHECK(reads_the_counter());
  CHECK(error_ns() < kMostErrorNs);
}

}  // namespace orrery::preload
