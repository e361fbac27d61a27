// plan(): flows + fabric -> path, release offset, pace and backups for every flow. A pure function: no I/O, clock,
// threads or unseeded randomness; the same snapshot gives the same plan, in the controller, the CLI and the simulator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"

namespace orrery::planner {

// One direction of traffic between two NICs, over one round of its communicator.
struct FlowDemand {
  uint64_t flow_id = 0;  // unique in the snapshot
  uint64_t comm_id = 0;
  IpAddress src;
  IpAddress dst;
  uint64_t bytes = 0;    // per round; 0 is planned last and counts as no load
  uint32_t phase = 0;    // flows of different phases never send at the same time: loads add up only within a phase
  fabric::Path fixed;    // not empty: cannot be moved, a load to plan around
  fabric::Path current;  // not empty: kept when an equally good plan allows; of the first subflow
  // Connections (queue pairs) that share the bytes evenly, each with a path of its own: 1..kMaxSubflows. Each counts as
  // its share rounded up.
  uint32_t subflows = 1;
  // Part of an all-to-all: all its bytes are there when its collective begins, so that it can wait for its round.
  bool exchange = false;
  uint32_t collectives = 1;  // that `bytes` is of, at least 1: each waits for the release offset anew
  // Sent at the same time as the rest of its communicator; else it is not paced, for a share of links that others leave
  // idle would only slow it down.
  bool in_step = true;
};
inline constexpr uint32_t kMaxSubflows = 256;

struct Options {
  uint32_t backups = 1;  // wanted per flow, link-disjoint from the primary in the fabric's core where possible
  bool stagger = true;   // release offsets where flows must share a link
  // Bounds of what they are apart on a link, which is queue bytes / (rate * flows there).
  uint64_t min_stagger_ns = 0;
  uint64_t max_stagger_ns = UINT64_MAX;
  // Exchanges go in rounds, in each of which no NIC receives from two, unless that takes over kMaxRoundCostPercent
  // longer than the lower bound or the last round would begin after max_offset_ns: then all flows start at once, paced.
  bool rounds = true;
  uint64_t max_offset_ns = UINT64_MAX;
  uint32_t round_margin_percent = 4;  // of a round's drain time before the next begins: headers, acknowledgements
  uint32_t move_penalty_percent = 1;  // a move must lower the maximum by more than this
};

inline constexpr uint32_t kMaxRoundCostPercent = 10;

struct Snapshot {
  const fabric::Graph* fabric = nullptr;
  std::vector<FlowDemand> flows;
  Options options;
};

struct SubflowAssignment {
  fabric::Path path;
  std::vector<fabric::Path> backups;
};

struct FlowAssignment {
  uint64_t flow_id = 0;
  fabric::Path path;  // of its first subflow; empty: no usable path; the flow stays unmanaged
  std::vector<fabric::Path> backups;
  std::vector<SubflowAssignment> others;  // subflows after the first
  uint32_t round = 0;                     // of its exchange; 0 also without rounds
  uint64_t release_offset_ns = 0;
  uint64_t pace_bps = 0;             // of all subflows together, beside the rest of its communicator; 0: unpaced
  std::vector<std::string> reasons;  // sentences for `orreryctl flow explain`, filled by explain(), not by plan()
  // Calls visit(path) for every subflow.
  template <typename Visit>
  void each_path(const Visit& visit) const {
    visit(path);
    for (const SubflowAssignment& other : others) visit(other.path);
  }
};

enum class Method : uint8_t { kNone, kEdgeColouring, kMinMax };

struct Plan {
  std::vector<FlowAssignment> flows;  // in the order of the snapshot
  Method method = Method::kNone;
  std::vector<uint64_t> link_bytes;  // by LinkId, of the busiest phase of each link
  uint32_t rounds = 0;               // of the phase that has most; 0: none has rounds
  // Times to drain the busiest link, in nanoseconds per round of the communicator (bytes over rate, so that unequal
  // rates compare). Where a phase goes in rounds: the sum over its rounds.
  uint64_t max_drain_ns = 0;
  uint64_t lower_bound_ns = 0;  // no assignment can do better; equal to max_drain_ns when the plan is proven optimal
  // Nor can any routing at all, even one that splits flows over links at will. More subflows come nearer to it.
  uint64_t fluid_bound_ns = 0;
  bool optimal() const { return max_drain_ns == lower_bound_ns; }
  uint32_t moves = 0;  // flows whose path differs from a non-empty `current`
};

// Errors: kInvalidArgument names the flow (unknown address, duplicate id, fixed path that is not a path, too many
// subflows).
Result<Plan> plan(const Snapshot& snapshot);

// The fewest subflows found, the same for every flow that can move, with which a plan comes within `tolerance_percent`
// of the fluid bound; where `limit` are not enough, the number that comes nearest. Where links are gone or unequal,
// whole flows do not divide evenly: 32 of them on 31 links take twice as long as one, with 19 subflows each 20/19.
// Errors: as plan().
Result<uint32_t> least_subflows(const Snapshot& snapshot, uint32_t limit, uint32_t tolerance_percent = 2);

// Why `flow_id` got its path: what was demanded, what the alternatives carried, what bounds the plan.
Result<std::vector<std::string>> explain(const Snapshot& snapshot, const Plan& plan, uint64_t flow_id);

}  // namespace orrery::planner
