// Load-balancing schemes: traffic and fabric in, a route for every flow out. Pure: the same seed gives the same routes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/sim/model/lowering.h"
#include "tools/sim/model/traffic.h"

namespace orrery::sim {

enum class Scheme : uint8_t {
  kEcmp,         // one connection, its path by the switches' hash of a random source port
  kEcmpMulti,    // the same with several connections that share the bytes
  kFlowlet,      // another path after a pause
  kSpray,        // another path for every packet; receivers must tolerate reordering
  kRecycle,      // REPS-like: paths of unmarked ACKs again
  kRehash,       // PLB-like: another path when marks persist
  kFirstFit,     // a central scheduler that gives each flow, the largest first, the first path with room (Hedera-like)
  kOrreryPaths,  // planned paths
  kOrreryStagger,  // and release offsets where flows must share a link; all-to-all that starts at once in rounds
  kOrreryPhases,   // and jobs that share links take turns
  kOrreryRepath    // and another path at the start of a burst that telemetry finds congested
};

// Every scheme, in the order of reports.
std::span<const Scheme> all_schemes();
// "ecmp", "ecmp-multi", ... as written on command lines.
std::string_view name_of(Scheme scheme);
std::optional<Scheme> scheme_of(std::string_view name);
// Whether the planner gives the paths.
bool plans(Scheme scheme);
// Whether packets of one connection may overtake each other, so that receivers must take them out of order.
bool reorders(Scheme scheme);

// Queue pairs of every flow, by scheme: kOrreryPaths splits for itself, the other planned schemes alike. 0: not known.
struct Subflows {
  uint32_t paths = 0;
  uint32_t others = 0;
  uint32_t& of(Scheme scheme) { return scheme == Scheme::kOrreryPaths ? paths : others; }
  uint32_t of(Scheme scheme) const { return scheme == Scheme::kOrreryPaths ? paths : others; }
};

struct SchemeOptions {
  uint64_t seed = 1;
  uint32_t connections = 4;  // of kEcmpMulti
  uint32_t subflows = 32;    // of a planned scheme at most, taken where whole flows do not divide evenly over links
  Subflows known;            // what subflows_of() said of this traffic and fabric, so that it is not asked again
  Time max_hold = 0;         // by which a planned send can be held back, as agents limit it; 0: without limit
  Time min_stagger = 0;      // how far apart starts on a link are at least, and at most; planned: planner::stagger()
  Time max_stagger = kNever;
  Time max_wait = 1 * kPerMs;  // by which a round waits for its job's turn at most, when jobs take turns
  size_t path_limit = 64;      // equal-cost paths that a moving scheme may use
  double threshold = 1;        // of kFirstFit: the use of a link up to which it has room
  // What the hashed schemes' connections have, in turn for each pair of addresses, in place of random source ports.
  std::vector<FiveTuple> five_tuples;
};

struct Routed {
  std::vector<FlowRoute> flows;  // by flow
  // Of the planned schemes: times to drain the busiest link, and what no assignment can go below. 0 for the others.
  Time planned_drain = 0;
  Time lower_bound = 0;
  std::vector<JobPhase> phases;  // by job, or empty
  // planner::PhaseOffsets: of the bytes on links that several jobs use, the part that meets a full link.
  double overlap_before = 0;
  double overlap_after = 0;
};

// Queue pairs of every flow: more than one where whole flows do not divide evenly over links. 1 for schemes that do not
// plan.
Result<uint32_t> subflows_of(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme,
                             const SchemeOptions& options);

// Errors: kUnavailable names a flow without a usable path; what the planner says.
Result<Routed> route(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme,
                     const SchemeOptions& options = {});

}  // namespace orrery::sim
