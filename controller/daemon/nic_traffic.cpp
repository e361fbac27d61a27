#include "controller/daemon/nic_traffic.h"

#include <algorithm>

namespace orrery::daemon {
namespace {

// Slices of as many whole iterations as fill `span_ns`, rounded.
size_t slices_of(uint64_t period_ns, uint64_t span_ns) {
  const uint64_t iterations = period_ns == 0 ? 0 : (span_ns + period_ns - 1) / period_ns;
  const uint64_t time_ns = std::max(iterations * period_ns, span_ns);
  return static_cast<size_t>((time_ns + kSliceNs / 2) / kSliceNs);
}

Verdict compare(double observed_bps, double expected_bps) {
  if (observed_bps < expected_bps * (1 - NicTraffic::kTolerance)) return Verdict::kSlower;
  if (observed_bps > expected_bps * (1 + NicTraffic::kTolerance)) return Verdict::kFaster;
  return Verdict::kAsPredicted;
}

}  // namespace

bool NicTraffic::sample(std::span<const uint64_t> sent_bytes, uint64_t now_ns) {
  if (!columns_.empty()) {  // at whole seconds of the clock, so that slices are as long as they are taken to be
    const uint64_t before_ns = columns_[last_].at_ns;
    if (now_ns < before_ns + kSliceNs / 2 || now_ns / kSliceNs == before_ns / kSliceNs) return false;
  }
  if (columns_.size() <= kSlices) {
    last_ = columns_.size();
    columns_.emplace_back();
  } else {
    last_ = (last_ + 1) % columns_.size();
  }
  columns_[last_].at_ns = now_ns;
  columns_[last_].sent_bytes.assign(sent_bytes.begin(), sent_bytes.end());
  return true;
}

double NicTraffic::rate_bps(size_t nic, size_t newest, size_t oldest) const {
  const Column &to = back(newest), &from = back(oldest);
  return static_cast<double>(to.sent_bytes[nic] - from.sent_bytes[nic]) * 8e9 /
         static_cast<double>(to.at_ns - from.at_ns);
}

bool NicTraffic::sends_between(size_t nic, size_t newest, size_t oldest) const {
  for (size_t slice = newest; slice < oldest; ++slice)
    if (rate_bps(nic, slice, slice + 1) >= kNoise_bps) return true;
  return false;
}

NicLevel NicTraffic::judge(size_t nic, const NicExpectation& expected) const {
  // Longer than any pause between two iterations.
  const size_t pause = slices_of(expected.period_ns, expected.period_ns) + 2;
  if (!sends_between(nic, 0, std::min(pause, slices())))
    return {.verdict = expected.sends() && slices() >= pause ? Verdict::kSilent : Verdict::kUnknown};
  const size_t wanted = slices_of(expected.period_ns, kLeastSpanNs);
  size_t span = std::min(wanted, slices());
  const bool begun_before = sends_between(nic, span, std::min(span + pause, slices()));
  while (!begun_before && !sends_between(nic, span - 1, span)) --span;

  NicLevel level;
  for (size_t slice = 0; slice < span; ++slice)
    level.peak_bps = std::max(level.peak_bps, rate_bps(nic, slice, slice + 1));
  level.mean_bps = rate_bps(nic, 0, span);
  if (!expected.sends()) {
    level.verdict = Verdict::kNotPredicted;
  } else if (span == wanted) {
    level.verdict = compare(level.mean_bps, expected.mean_bps);
  }
  return level;
}

}  // namespace orrery::daemon
