// orrery-sim's command line: what main() calls, what orreryctl takes its `simulate` from, and what tests call with
// streams of their own.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace CLI {
class App;
}

namespace orrery::sim {

struct Console {
  std::ostream& out;
  std::ostream& err;
  std::string program = "orrery-sim";  // before errors
  bool terminal = false;               // `err` is one: progress is shown in place
  bool colour = false;                 // of `out`
};

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,  // the command was understood and did not succeed
  kUsage = 2    // wrong arguments or bad input
};

// `arguments` without the program's name. Returns an ExitCode; all errors are on console.err by then.
int run(const std::vector<std::string>& arguments, Console& console);

// The options of `run` on `app`. Parsing sets `action`, which simulates and returns an ExitCode. The streams of
// `console` and `action` outlive the app.
void add_run_options(CLI::App& app, const Console& console, std::function<int()>& action);

// The help text of every command, in order: what the golden file is made of.
std::string all_help();

}  // namespace orrery::sim
