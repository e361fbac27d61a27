#include "tools/sim/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>

namespace orrery::sim {
namespace {

std::string minutes(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressLine::ProgressLine(std::ostream& err, bool terminal, std::string hint, Clock clock)
    : err_(err), terminal_(terminal), hint_(std::move(hint)), clock_(std::move(clock)) {}

double ProgressLine::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ProgressLine::start(const RunStart& start, const Traffic& traffic) {
  const double now = clock_();
  Running& run = running_[start.done];
  run.start = start;
  run.rounds =
      static_cast<double>(traffic.rounds.size()) / static_cast<double>(std::max<size_t>(1, traffic.jobs.size()));
  run.began = run.last_pulse = last_line_ = now;
  std::string line = fmt::format("run {} of {}: {}, {:.1f} M packet hops of traffic", start.done + 1, start.total,
                                 start.what, static_cast<double>(start.data_hops) / 1e6);
  if (ended_ > 0) line += fmt::format("; {} left", minutes(left_in_all(now)));
  show(std::move(line));
}

// Runs of which nothing is known take as long as the mean of the others.
double ProgressLine::left_in_all(double now) const {
  double known = ended_seconds_, left = 0;
  size_t count = ended_, unknown = 0, total = 0;
  for (const auto& [number, run] : running_) {
    total = run.start.total - run.start.known;
    if (run.whole == 0) {
      ++unknown;
      continue;
    }
    known += run.whole;
    left += std::max(0.0, run.whole - (now - run.began));
    ++count;
  }
  if (count == 0) return 0;
  const size_t to_come = total - std::min(total, ended_ + running_.size()) + unknown;
  const double each = known / static_cast<double>(count);
  return (left + each * static_cast<double>(to_come)) / static_cast<double>(running_.size());
}

void ProgressLine::pulse(size_t number, const Pulse& pulse) {
  constexpr double kEvery = 10;
  const double now = clock_();
  if (!terminal_ && now - last_line_ < kEvery) return;
  Running& run = running_.at(number);
  const auto bytes = static_cast<double>(run.start.bytes);
  const double share = bytes == 0 ? 0 : std::min(1.0, static_cast<double>(pulse.delivered_bytes) / bytes);
  const double rate = static_cast<double>(pulse.events - run.last.events) / std::max(1e-3, now - run.last_pulse);
  std::string line = fmt::format("{}/{} {}: {:.0f} %", number + 1, run.start.total, run.start.what, 100 * share);
  if (run.rounds >= 2)
    line += fmt::format(", iteration {:.0f} of {:.0f}", std::min(run.rounds, 1 + std::floor(share * run.rounds)),
                        run.rounds);
  line += fmt::format("; {:.2f} ms simulated, {:.1f} M events/s",
                      static_cast<double>(pulse.now) / static_cast<double>(kPerMs), rate / 1e6);
  run.last = pulse;
  run.last_pulse = last_line_ = now;
  if (share > 0) {
    run.whole = (now - run.began) / share;
    const double in_all = left_in_all(now);
    line += fmt::format("; {} left, {} in all", minutes(run.whole - (now - run.began)), minutes(in_all));
    tell_hint(in_all);
  }
  show(std::move(line));
}

void ProgressLine::tell_hint(double left) {
  constexpr double kLong = 60;
  if (hint_.empty() || left < kLong) return;
  finish();
  err_ << hint_ << "\n" << std::flush;
  hint_.clear();
}

void ProgressLine::end(size_t number) {
  const auto run = running_.find(number);
  if (run == running_.end()) return;
  ended_seconds_ += clock_() - run->second.began;
  ++ended_;
  running_.erase(run);
}

void ProgressLine::show(std::string line) {
  if (!terminal_) {
    err_ << line << "\n" << std::flush;
    return;
  }
  const size_t width = line.size();
  if (width < last_width_) line.append(last_width_ - width, ' ');
  last_width_ = width;
  err_ << "\r" << line << std::flush;
}

void ProgressLine::finish() {
  if (terminal_ && last_width_ > 0) err_ << "\r" << std::string(last_width_, ' ') << "\r" << std::flush;
  last_width_ = 0;
}

}  // namespace orrery::sim
