// Flows that are joined by NICs or by their communicator: a job, as far as the planner can tell. Jobs are not in step,
// and what slows a small one does not show in the time that the busiest link of a large one needs: two of its flows on
// one link double its time, long before that link has as much to send. So a flow weighs the share that it has of its
// team's own time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/planner/problem.h"

namespace orrery::planner {

class Teams {
 public:
  // Both outlive it.
  Teams(const fabric::Graph& fabric, const std::vector<ResolvedFlow>& flows);

  // One host of the flow's team.
  fabric::NodeId of(uint32_t index) const { return team_[index]; }
  // What a byte of each of these flows weighs when they send at the same time: 1 for the team whose busiest NIC needs
  // longest, more for the others, so that every team's busiest NIC counts for as long. Flows of no communicator do not
  // repeat, and weigh their bytes. Empty: 1 for all.
  std::vector<double> weights(std::span<const uint32_t> indices) const;

 private:
  const fabric::Graph& fabric_;
  const std::vector<ResolvedFlow>& flows_;
  std::vector<fabric::NodeId> team_;  // by flow
  bool one_ = false;
};

}  // namespace orrery::planner
