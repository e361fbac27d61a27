// Runs the program under the library with an agent of our own, which takes what the library tells and plans nothing.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/preload_check/findings.h"

namespace orrery::preload_check {

// The program's standard output goes to our standard error. Its children count too. Errors: kSystem.
Result<Trial> run_trial(const std::string& library, const std::vector<std::string>& command);

}  // namespace orrery::preload_check
