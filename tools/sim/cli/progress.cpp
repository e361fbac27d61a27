#include "tools/sim/cli/progress.h"

#include <fmt/format.h>

#include <ostream>

namespace orrery::sim {
namespace {

std::string minutes(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressLine::ProgressLine(std::ostream& err, bool terminal)
    : err_(err), terminal_(terminal), began_(std::chrono::steady_clock::now()) {}

void ProgressLine::start(const RunStart& start) {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  std::string line = fmt::format("run {} of {}: {}, {:.1f} M packet hops of traffic", start.done + 1, start.total,
                                 start.what, static_cast<double>(start.data_hops) / 1e6);
  if (start.done > 0)
    line += fmt::format("; {} left", minutes(elapsed / static_cast<double>(start.done) *
                                             static_cast<double>(start.total - start.done)));
  if (!terminal_) {
    err_ << line << "\n";
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
