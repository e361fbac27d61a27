// Homes: a core for every flow that its destination alone decides, for flows that go one after another.
//
// Paths are planned phase by phase, but phases need not keep step: hosts that are done sooner begin the next one while
// others still send. If each destination receives whatever comes from other leaves over one link of its own (or, where
// hosts are more than links, one that as few others as possible have), flows of different phases meet on the way down
// only where they would meet at a NIC besides. On the way up, the sources of a leaf that send to different hosts take
// different links as far as those hosts' homes differ. Known as D-mod-K (E. Zahavi, 2010: optimised InfiniBand
// fat-tree routing for shift all-to-all communication patterns).
#pragma once

#include <unordered_map>
#include <vector>

#include "controller/planner/problem.h"

namespace orrery::planner {

class Homes {
 public:
  Homes() = default;
  // For destinations of flows whose communicator has several phases, or which are exchanges and so may go in rounds.
  // `flows` are not kept, their tables of cores must outlive this.
  Homes(const fabric::Graph& fabric, const std::vector<ResolvedFlow>& flows);

  // Index in the flow's cores; kNoChoice: no home. Subflows have homes of their own.
  uint32_t of(const ResolvedFlow& flow, uint32_t subflow) const;

 private:
  struct Destination {
    const std::vector<Core>* cores = nullptr;  // from one of its sources, the farthest
    uint32_t subflows = 1;
    std::vector<uint32_t> home;  // by subflow: index in `cores`
  };
  std::unordered_map<fabric::LinkId, Destination> destinations_;  // by link down
};

}  // namespace orrery::planner
