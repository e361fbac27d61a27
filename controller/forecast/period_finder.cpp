#include "controller/forecast/period_finder.h"

#include <algorithm>

namespace orrery::forecast {

void PeriodFinder::push(const Event& event) {
  const uint32_t periods = std::min<uint32_t>(size(), kMaxPeriod);
  if (matches_.size() < periods + 1) matches_.resize(periods + 1);
  for (uint32_t period = 1; period <= periods; ++period)
    matches_[period] = recent(period - 1).operation == event.operation ? matches_[period] + 1 : 0;
  if (events_.size() < kCapacity) {
    events_.push_back(event);
    next_ = events_.size() % kCapacity;
  } else {
    events_[next_] = event;
    next_ = (next_ + 1) % kCapacity;
  }
}

std::optional<uint32_t> PeriodFinder::period() const {
  std::optional<uint32_t> best;
  for (uint32_t period = 1; period < matches_.size(); ++period)
    if (matches_[period] >= period && (!best || explained(period) > explained(*best))) best = period;
  return best;
}

}  // namespace orrery::forecast
