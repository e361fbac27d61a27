// Flows of equal size on a Clos fabric of two or three tiers, by edge colouring.
//
// Two tiers: leaves are vertices (once as sources, once as destinations), flows are edges, spines are colours, and no
// leaf-spine link gets more flows than the least possible. Three tiers: the switches above the leaves fall into planes,
// each with one switch in every pod; leaves are vertices and planes are colours, and then in each plane its switches in
// the pods are vertices and its core switches colours. Where no tier has less capacity than the one below, no link gets
// more flows than the least possible either.
#pragma once

#include <optional>

#include "controller/planner/problem.h"

namespace orrery::planner {

// Nothing where the problem is no such one: every item with a choice weighs the same, links of a tier have one rate and
// no fixed load, and no two ways of a pair of leaves have plane and core switch in common. Items whose way is down have
// kNoChoice.
std::optional<Choice> colour_clos(const Problem& problem);

}  // namespace orrery::planner
