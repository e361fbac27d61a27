#include "controller/daemon/expectations.h"

#include <algorithm>
#include <cmath>

namespace orrery::daemon {
namespace {

using Wire = msg::NicForecast::Verdict;

constexpr size_t kNicsShown = 4096;  // so that an answer fits into a message

constexpr double kMost_bps = 1e15;  // what agents say is not believed beyond it

uint64_t whole(double bps) {
  return static_cast<uint64_t>(std::llround(std::min(bps, kMost_bps)));
}

Wire wire_verdict(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUnknown:
      return Wire::kUnknown;
    case Verdict::kAsPredicted:
      return Wire::kAsPredicted;
    case Verdict::kSlower:
      return Wire::kSlower;
    case Verdict::kFaster:
      return Wire::kFaster;
    case Verdict::kSilent:
      return Wire::kSilent;
    case Verdict::kNotPredicted:
      return Wire::kNotPredicted;
  }
  std::abort();
}

bool deviates(Verdict verdict) {
  return verdict == Verdict::kSlower || verdict == Verdict::kFaster || verdict == Verdict::kNotPredicted;
}

// How far from what was predicted, as a share of the larger of the two.
double distance(const msg::NicForecast& nic) {
  const double observed = static_cast<double>(nic.observed_bps), predicted = static_cast<double>(nic.predicted_bps);
  return std::abs(observed - predicted) / std::max({observed, predicted, 1.0});
}

}  // namespace

Expectations::Expectations(const fabric::Graph& fabric, telemetry::Metrics& metrics)
    : fabric_(fabric),
      deviating_(metrics.gauge("orrery_forecast_deviating_nics",
                               "NICs that send more or less than the simulation's prediction, by a fifth or more")) {}

uint64_t Expectations::bytes_per_iteration(const IpAddress& address) const {
  const fabric::Nic* nic = prediction_ ? fabric_.find_nic(address) : nullptr;
  return nic == nullptr ? 0 : prediction_->of(nic - fabric_.nics().data()).bytes_per_iteration;
}

void Expectations::sample(std::span<const uint64_t> sent_bytes, uint64_t now_ns) {
  if (!prediction_ || !traffic_.sample(sent_bytes, now_ns)) return;
  size_t count = 0;
  for (size_t nic = 0; nic < sent_bytes.size(); ++nic)
    count += deviates(traffic_.judge(nic, prediction_->of(nic)).verdict);
  deviating_.Set(static_cast<double>(count));
}

msg::NicForecasts Expectations::list() const {
  msg::NicForecasts list;
  if (!prediction_) return list;
  list.source = prediction_->source();
  list.topology = prediction_->topology();
  list.same_fabric = prediction_->same_fabric();
  for (const msg::PredictedJob& job : prediction_->jobs()) list.jobs.push_back({job.name, job.period_ns});
  for (size_t i = 0; i < fabric_.nics().size(); ++i) {
    const NicExpectation& expected = prediction_->of(i);
    const NicLevel level = traffic_.judge(i, expected);
    if (!expected.sends() && level.mean_bps == 0) continue;
    const fabric::Nic& nic = fabric_.nics()[i];
    list.nics.push_back({.host = fabric_.node(nic.host).name,
                         .nic = nic.name,
                         .jobs = expected.jobs,
                         .bytes_per_iteration = expected.bytes_per_iteration,
                         .predicted_bps = whole(expected.mean_bps),
                         .predicted_peak_bps = whole(expected.peak_bps),
                         .observed_bps = whole(level.mean_bps),
                         .observed_peak_bps = whole(level.peak_bps),
                         .verdict = wire_verdict(level.verdict)});
  }
  list.total = list.nics.size();
  if (list.nics.size() <= kNicsShown) return list;
  std::stable_sort(list.nics.begin(), list.nics.end(),
                   [](const auto& a, const auto& b) { return distance(a) > distance(b); });
  list.nics.resize(kNicsShown);
  return list;
}

}  // namespace orrery::daemon
