// Edge colouring of bipartite multigraphs. A colouring in which every vertex has at most ceil(degree / colours) edges
// of a colour always exists (D. de Werra, "Equitable colorations of graphs", 1971): split every vertex into parts of
// `colours` edges and colour the parts properly with alternating paths (D. König, 1916).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/planner/problem.h"

namespace orrery::planner {

struct Edge {
  uint32_t left = 0;
  uint32_t right = 0;
  uint32_t preferred = kNoChoice;  // colour to keep when the optimum allows, else any
};

// Colour of each edge, 0..colours-1. At every vertex each colour has at most ceil(degree / colours) edges, and without
// preferences at least floor(degree / colours). `rotation` turns the order in which colours are tried. Time: edges *
// (vertices + colours). Precondition: colours > 0; vertices of either side are numbered densely from 0.
std::vector<uint32_t> colour_edges(std::span<const Edge> edges, uint32_t colours, uint32_t rotation = 0);

}  // namespace orrery::planner
