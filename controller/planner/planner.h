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
  fabric::Path current;  // not empty: kept when an equally good plan allows
};

struct Options {
  uint32_t backups = 1;  // wanted per flow, link-disjoint from the primary in the fabric's core where possible
  bool stagger = true;   // release offsets where flows must share a link
  uint32_t move_penalty_percent = 1;  // a move must lower the maximum by more than this
};

struct Snapshot {
  const fabric::Graph* fabric = nullptr;
  std::vector<FlowDemand> flows;
  Options options;
};

struct FlowAssignment {
  uint64_t flow_id = 0;
  fabric::Path path;  // empty: no usable path; the flow stays unmanaged
  std::vector<fabric::Path> backups;
  uint64_t release_offset_ns = 0;
  uint64_t pace_bps = 0;             // 0: unpaced
  std::vector<std::string> reasons;  // sentences for `orreryctl flow explain`, filled by explain(), not by plan()
};

enum class Method : uint8_t { kNone, kEdgeColouring, kMinMax };

struct Plan {
  std::vector<FlowAssignment> flows;  // in the order of the snapshot
  Method method = Method::kNone;
  std::vector<uint64_t> link_bytes;  // by LinkId, of the busiest phase of each link
  // Times to drain the busiest link, in nanoseconds per round (bytes over rate, so that unequal rates compare).
  uint64_t max_drain_ns = 0;
  uint64_t lower_bound_ns = 0;  // no assignment can do better; equal to max_drain_ns when the plan is proven optimal
  bool optimal() const { return max_drain_ns == lower_bound_ns; }
  uint32_t moves = 0;  // flows whose path differs from a non-empty `current`
};

// Errors: kInvalidArgument names the flow (unknown address, duplicate id, fixed path that is not a path).
Result<Plan> plan(const Snapshot& snapshot);

// Why `flow_id` got its path: what was demanded, what the alternatives carried, what bounds the plan.
Result<std::vector<std::string>> explain(const Snapshot& snapshot, const Plan& plan, uint64_t flow_id);

}  // namespace orrery::planner
