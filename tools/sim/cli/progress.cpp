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

ProgressLine::ProgressLine(std::ostream& err, bool terminal, Clock clock)
    : err_(err), terminal_(terminal), clock_(std::move(clock)), began_(clock_()) {}

double ProgressLine::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ProgressLine::start(const RunStart& start, const Traffic& traffic) {
  run_ = start;
  rounds_ = static_cast<double>(traffic.rounds.size()) / static_cast<double>(std::max<size_t>(1, traffic.jobs.size()));
  run_began_ = last_line_ = last_pulse_ = clock_();
  last_ = {};
  std::string line = fmt::format("run {} of {}: {}, {:.1f} M packet hops of traffic", run_.done + 1, run_.total,
                                 run_.what, static_cast<double>(start.data_hops) / 1e6);
  if (const size_t ran = start.done - start.known; ran > 0)
    line += fmt::format("; {} left", minutes((run_began_ - began_) / static_cast<double>(ran) *
                                             static_cast<double>(start.total - start.done)));
  show(std::move(line));
}

void ProgressLine::pulse(const Pulse& pulse) {
  constexpr double kEvery = 10;
  const double now = clock_();
  if (!terminal_ && now - last_line_ < kEvery) return;
  const double share =
      run_.bytes == 0 ? 0 : std::min(1.0, static_cast<double>(pulse.delivered_bytes) / static_cast<double>(run_.bytes));
  const double rate = static_cast<double>(pulse.events - last_.events) / std::max(1e-3, now - last_pulse_);
  std::string line = fmt::format("{}/{} {}: {:.0f} %", run_.done + 1, run_.total, run_.what, 100 * share);
  if (rounds_ >= 2)
    line += fmt::format(", iteration {:.0f} of {:.0f}", std::min(rounds_, 1 + std::floor(share * rounds_)), rounds_);
  line += fmt::format("; {:.2f} ms simulated, {:.1f} M events/s",
                      static_cast<double>(pulse.now) / static_cast<double>(kPerMs), rate / 1e6);
  if (share > 0) {
    // Runs to come take as long as those that are done, or as this one.
    const double whole = (now - run_began_) / share, left = whole - (now - run_began_);
    const auto ran = static_cast<double>(run_.done - run_.known);
    const double each = (run_began_ - began_ + whole) / (ran + 1);
    line += fmt::format("; {} left, {} in all", minutes(left),
                        minutes(left + each * static_cast<double>(run_.total - run_.done - 1)));
  }
  last_ = pulse;
  last_pulse_ = last_line_ = now;
  show(std::move(line));
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
}

}  // namespace orrery::sim
