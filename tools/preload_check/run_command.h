// Runs a helper program and keeps its output.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace orrery::preload_check {

// Standard output of the command, which must end with status 0 within 20 s. LD_PRELOAD is not passed on; `setting`, if
// any, is a NAME=value to add to the environment. Errors: kSystem, kUnavailable (it failed or took too long).
Result<std::string> run_command(const std::vector<std::string>& command, const std::string& setting = "");

// The version that ncclGetVersion of this library answers, asked in a process of its own: the library runs its
// constructors there. 0 when it cannot be loaded or does not answer.
int ask_nccl_version(const std::string& library);

}  // namespace orrery::preload_check
