// Looks at a program, the machine and the environment, without running the program.
#pragma once

#include <map>
#include <string>

#include "common/base/result.h"
#include "tools/preload_check/findings.h"

namespace orrery::preload_check {

using Environment = std::map<std::string, std::string>;

struct InspectionRequest {
  std::string program;  // as the shell would take it
  std::string library;  // empty: next to this tool, or what LD_PRELOAD names
  Environment environment;
};

// The agent is not asked (agent_query.h). Errors: kNotFound, kInvalidArgument (not executable, or a script of an
// interpreter that is not there), kSystem.
Result<Findings> inspect(const InspectionRequest& request);

}  // namespace orrery::preload_check
