#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "tools/sim/cli/cli.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  orrery::sim::Console console{.out = std::cout, .err = std::cerr};
  console.terminal = isatty(STDERR_FILENO) == 1;
  console.colour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  const int code = orrery::sim::run({argv + 1, argv + argc}, console);
  std::cout.flush();
  return code == 0 && !std::cout ? 1 : code;
}
