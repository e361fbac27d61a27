// Where NICs are: under which leaf, in which pod, and how many cables between switches lie between two leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/fabric/graph.h"

namespace orrery::planning {

// NICs, leaves and pods are numbered from 0; NICs as in fabric::Graph::nics(), leaves and pods in the order of their
// first NIC. Leaves are of one pod when they meet in a switch above both.
class Sites {
 public:
  explicit Sites(const fabric::Graph& graph);

  // The same with only NICs 0, n, 2n, ... (whole steps), renumbered.
  Sites of_every(uint32_t n) const;

  uint32_t nics() const { return static_cast<uint32_t>(leaf_of_.size()); }
  uint32_t leaves() const { return static_cast<uint32_t>(pod_of_.size()); }
  uint32_t pods() const { return pods_; }
  uint32_t leaf_of(uint32_t nic) const { return leaf_of_[nic]; }
  uint32_t host_of(uint32_t nic) const { return host_of_[nic]; }
  uint32_t pod_of(uint32_t leaf) const { return pod_of_[leaf]; }
  // 0 within a leaf, 2 by a spine, 4 by a core. Leaves with no path count as farther than any.
  uint32_t cables(uint32_t leaf_a, uint32_t leaf_b) const { return cables_[size_t{leaf_a} * leaves() + leaf_b]; }

 private:
  std::vector<uint32_t> leaf_of_, host_of_;  // by NIC
  std::vector<uint32_t> pod_of_;             // by leaf
  std::vector<uint8_t> cables_;
  uint32_t pods_ = 0;
};

}  // namespace orrery::planning
