// The result document: what `run --json` prints, and what `compare` and `report` read.
//
// {"schema": 1, "title", "settings": {...}, "fabric": {"switches", "hosts", "links": [{"port", "to", "rate_bps",
// "core"}]}, "ideal_ms", "schemes": [{"scheme", the figures of Summary, "per_seed": [{"seed", "times_ms",
// "job_times_ms" (by job), "link_bytes" (core links, in the order of fabric.links), "end_ms", "cpu_s"}]}]}; times are
// milliseconds, shares are fractions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/sim/cli/command.h"

namespace orrery::sim {

nlohmann::json document_of(const RunRequest& request, const fabric::Graph& graph, const StudyResult& result);

// Errors: kInvalidArgument names the file and what it lacks.
Result<nlohmann::json> load_document(const std::string& path);

}  // namespace orrery::sim
