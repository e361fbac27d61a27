// Logging for the daemons: spdlog to stderr, in a form systemd's journal reads (priority prefix) when stderr is not a
// terminal. Call sites use spdlog::info(...) and friends directly. The preload library never links this.
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace orrery {

// `level`: trace, debug, info, warning, error. `program` names the log lines.
Status set_up_logging(std::string_view program, std::string_view level);

}  // namespace orrery
