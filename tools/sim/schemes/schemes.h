// The parts of scheme.cpp, by kind of scheme.
#pragma once

#include "tools/sim/schemes/scheme.h"

namespace orrery::sim {

// Bytes that each flow sends in one round, by flow: what a scheduler may know.
std::vector<uint64_t> bytes_per_round(const Traffic& traffic);

Error no_path(const Traffic& traffic, const fabric::Graph& graph, uint32_t flow);

Result<Routed> route_hashed(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme,
                            const SchemeOptions& options);
Result<Routed> route_first_fit(const Traffic& traffic, const fabric::Graph& graph, const SchemeOptions& options);
Result<Routed> route_planned(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme,
                             const SchemeOptions& options);

}  // namespace orrery::sim
