// The command line of orrery-preload-check.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace orrery::preload_check {

struct Options {
  std::vector<std::string> command;  // the program and its arguments
  std::string library;
  std::string agent_socket;  // empty: ORRERY_AGENT_SOCKET, else the default
  bool json = false;
  bool run = false;
  bool help = false;
  bool version = false;
};

// Options of ours stand before the program. Errors: kInvalidArgument.
Result<Options> parse_options(const std::vector<std::string>& arguments);

extern const char* const kHelp;

}  // namespace orrery::preload_check
