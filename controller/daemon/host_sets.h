// Jobs as sets of hosts that have communicators in common: those wait for each other.
#pragma once

#include <numeric>
#include <vector>

#include "controller/daemon/communicators.h"
#include "controller/fabric/graph.h"

namespace orrery::daemon {

class HostSets {
 public:
  // `fabric` outlives it.
  explicit HostSets(const fabric::Graph& fabric) : fabric_(fabric), parent_(fabric.nodes().size()) {
    std::iota(parent_.begin(), parent_.end(), fabric::NodeId{0});
  }

  void unite(const Communicator& communicator) {
    const fabric::NodeId set = of(communicator);
    for (const auto& [rank, member] : communicator.ranks) parent_[of(host_of(member))] = set;
  }
  // One host of the set, the same for all of it until the next unite().
  fabric::NodeId of(fabric::NodeId host) {
    while (parent_[host] != host) host = parent_[host] = parent_[parent_[host]];
    return host;
  }
  fabric::NodeId of(const Communicator& communicator) { return of(host_of(communicator.ranks.begin()->second)); }

 private:
  fabric::NodeId host_of(const Rank& rank) const { return fabric_.find_nic(rank.address)->host; }

  const fabric::Graph& fabric_;
  std::vector<fabric::NodeId> parent_;
};

}  // namespace orrery::daemon
