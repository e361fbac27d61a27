// A run as it stands in a result document, in full: what `--resume` takes up again.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "controller/fabric/graph.h"
#include "tools/sim/runner/summary.h"

namespace orrery::sim {

nlohmann::json record_of(const fabric::Graph& graph, const Run& run);
// Nothing when it lacks something, or is of another fabric. Links other than those between switches are not in it: 0.
std::optional<Run> run_of(const fabric::Graph& graph, const nlohmann::json& record);

}  // namespace orrery::sim
