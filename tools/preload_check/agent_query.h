// Asks the agent whether it would take a process, as the library does, and hangs up.
#pragma once

#include <string>

#include "tools/preload_check/findings.h"

namespace orrery::preload_check {

// `socket` empty: the default. Waits at most two seconds.
Agent query_agent(std::string socket);

}  // namespace orrery::preload_check
