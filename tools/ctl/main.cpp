#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "tools/ctl/cli.h"

namespace {

volatile std::sig_atomic_t interrupted = 0;  // the one global: a signal handler can reach nothing else

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  orrery::ctl::Console console{.out = std::cout, .err = std::cerr};
  console.terminal = isatty(STDOUT_FILENO) == 1;
  console.colour = console.terminal && std::getenv("NO_COLOR") == nullptr;
  console.size = [] {
    orrery::ctl::TerminalSize size;
    winsize found{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) == 0 && found.ws_col > 0 && found.ws_row > 0)
      size = {found.ws_col, found.ws_row};
    return size;
  };
  if (const char* endpoint = std::getenv("ORRERY_CONTROLLER"); endpoint != nullptr && *endpoint != '\0')
    console.environment["ORRERY_CONTROLLER"] = endpoint;
  console.catch_interrupts = [] {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGHUP, &action, nullptr);
  };
  console.interrupted = [] { return interrupted != 0; };
  const int code = orrery::ctl::run({argv + 1, argv + argc}, console);
  std::cout.flush();
  return code == 0 && !std::cout ? 1 : code;
}
