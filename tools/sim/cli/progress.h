// How far a study is, on standard error.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <string>

#include "tools/sim/runner/runner.h"

namespace orrery::sim {

// On a terminal one line that is redrawn, else a line per run and one every ten seconds of long ones. One call at a
// time. `hint` is told once, as soon as all runs together will take minutes; empty: never.
class ProgressLine {
 public:
  using Clock = std::function<double()>;  // seconds
  ProgressLine(std::ostream& err, bool terminal, std::string hint, Clock clock = steady_seconds);
  void start(const RunStart& start, const Traffic& traffic);
  // RunStart::done of the run.
  void pulse(size_t run, const Pulse& pulse);
  void end(size_t run);
  void finish();

 private:
  struct Running {
    RunStart start;
    double rounds = 0;  // of a job
    double began = 0, last_pulse = 0;
    Pulse last;
    double whole = 0;  // how long it takes, as far as one knows
  };
  static double steady_seconds();
  double left_in_all(double now) const;
  void show(std::string line);
  void tell_hint(double left);

  std::ostream& err_;
  const bool terminal_;
  std::string hint_;
  const Clock clock_;
  std::map<size_t, Running> running_;
  size_t ended_ = 0;
  double ended_seconds_ = 0;  // of those, each by itself
  double last_line_ = 0;
  size_t last_width_ = 0;
};

}  // namespace orrery::sim
