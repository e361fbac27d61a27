// The command line every daemon shares: --config FILE, --set KEY=VALUE, --SECTION.NAME VALUE, --check-config,
// --print-config,
// --config-reference, --version, --help.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "common/config/table.h"

namespace orrery::config {

inline constexpr int kExitConfigFault = 2;

// Loads `table` from argv and envp. Nothing: the values are in place, go on. Otherwise the exit code of the program: 0
// after an option that only prints (on stdout), kExitConfigFault after faults (all of them on stderr, one a line).
// `version` is what --version prints after the program's name; `summary` opens the help text.
std::optional<int> load_command_line(Table& table, std::string_view version, std::string_view summary, int argc,
                                     const char* const* argv, const char* const* envp);

}  // namespace orrery::config
