// orreryctl's command line: what main() calls and what tests call with streams of their own.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace orrery::ctl {

struct TerminalSize {
  int columns = 100;
  int rows = 30;
};

// Where a command writes, and what it may assume about the place. Owned by main() or the test; used by one thread.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;  // `out` is one: `watch` redraws in place
  bool colour = false;
  std::function<TerminalSize()> size = [] { return TerminalSize{}; };
  std::map<std::string, std::string> environment;  // ORRERY_*
  // `watch` calls the first once and asks the second often; other commands leave signals to end the program.
  std::function<void()> catch_interrupts = [] {};
  std::function<bool()> interrupted = [] { return false; };
};

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       // the command was understood and did not succeed; what was named is not there
  kUsage = 2,        // wrong arguments or bad input
  kUnreachable = 3,  // no answer from the controller
};

// `arguments` without the program's name. Returns an ExitCode; all errors are on console.err by then.
int run(const std::vector<std::string>& arguments, Console& console);

// The help text of every command, in order: what the reference page and the man page are made of.
struct CommandHelp {
  std::string command;  // "topology check", "" for the program itself
  std::string text;
};
std::vector<CommandHelp> all_help();

}  // namespace orrery::ctl
