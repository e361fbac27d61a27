// Finds the period of a sequence of operations from its most recent part.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "controller/forecast/forecaster.h"

namespace orrery::forecast {

class PeriodFinder {
 public:
  struct Event {
    Operation operation;
    uint64_t start_ns = 0;
  };

  // Time per call: proportional to kMaxPeriod.
  void push(const Event& event);

  // The period that explains the longest recent stretch, at least two repetitions of it; the shortest of several.
  std::optional<uint32_t> period() const;
  // Number of recent operations that repeat with `period`, the first repetition included.
  uint64_t explained(uint32_t period) const { return matches_[period] + period; }

  // Operations held, and the one `back` before the last; 0 is the last. Precondition: back < size().
  uint32_t size() const { return static_cast<uint32_t>(events_.size()); }
  const Event& recent(uint32_t back) const { return events_[(next_ + events_.size() - 1 - back) % events_.size()]; }

 private:
  static constexpr uint32_t kCapacity = 2 * kMaxPeriod + 1;
  std::vector<Event> events_;  // a ring once it is full
  size_t next_ = 0;            // where the next event goes
  std::vector<uint64_t> matches_ =
      std::vector<uint64_t>(2);  // by period: recent operations in a row equal to the one a period before
};

}  // namespace orrery::forecast
