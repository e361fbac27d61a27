// What links, queues and NICs did over the time of one run, small enough for a result document: every level of use is
// one of 250 steps of the link's rate in two hexadecimal digits ("00" idle, "fa" full), slice after slice.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "controller/fabric/graph.h"
#include "tools/sim/model/result.h"

namespace orrery::sim {

inline constexpr double kFullUse = 250;

// NICs in the order of the document: by switch, within it by fabric::Graph.
std::vector<uint32_t> nics_by_switch(const fabric::Graph& graph);

// Null when nothing was recorded. The shape: docs/reference/simulation-result.md.
nlohmann::json history_of(const fabric::Graph& graph, const RunResult& result, uint64_t seed);

}  // namespace orrery::sim
