// How far a study is, on standard error.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "tools/sim/runner/runner.h"

namespace orrery::sim {

// On a terminal one line that is redrawn, else a line per run and one every ten seconds of a long one. Used by one
// thread.
class ProgressLine {
 public:
  using Clock = std::function<double()>;  // seconds
  ProgressLine(std::ostream& err, bool terminal, Clock clock = steady_seconds);
  void start(const RunStart& start, const Traffic& traffic);
  void pulse(const Pulse& pulse);
  void finish();

 private:
  static double steady_seconds();
  void show(std::string line);

  std::ostream& err_;
  const bool terminal_;
  const Clock clock_;
  const double began_;
  RunStart run_;
  double rounds_ = 0;  // of a job
  double run_began_ = 0, last_line_ = 0;
  Pulse last_;
  double last_pulse_ = 0;
  size_t last_width_ = 0;
};

}  // namespace orrery::sim
