// The answer as text for people and as JSON for programs.
#pragma once

#include <string>

#include "tools/preload_check/findings.h"
#include "tools/preload_check/verdict.h"

namespace orrery::preload_check {

std::string to_text(const Findings& findings, const Trial& trial, const Verdict& verdict);
std::string to_json(const Findings& findings, const Trial& trial, const Verdict& verdict);

}  // namespace orrery::preload_check
