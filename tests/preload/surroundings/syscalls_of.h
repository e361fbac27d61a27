#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

// How often a program makes each system call (by number), from its start to its end. Its output is thrown away.
std::map<long, int> syscalls_of(const std::vector<std::string>& command,
                                const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace orrery
