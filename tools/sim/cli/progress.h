// How far a study is, on standard error.
#pragma once

#include <chrono>
#include <iosfwd>

#include "tools/sim/runner/runner.h"

namespace orrery::sim {

// On a terminal one line that is redrawn, else a line per run. Used by one thread.
class ProgressLine {
 public:
  ProgressLine(std::ostream& err, bool terminal);
  void start(const RunStart& start);
  void finish();

 private:
  std::ostream& err_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point began_;
  size_t last_width_ = 0;
};

}  // namespace orrery::sim
