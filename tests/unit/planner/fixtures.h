// Fabrics, demands and checks that the planner's tests share.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "controller/fabric/graph.h"
#include "controller/fabric/topology.h"
#include "controller/planner/planner.h"

namespace orrery::planner::testing {

fabric::Graph clos(const fabric::LeafSpine& shape);

// A three-tier fat tree of switches with `ports` ports (even): ports pods, ports^3 / 4 hosts.
fabric::Graph fat_tree(uint32_t ports);

// NIC number `index`, 0-based, in the order of the topology.
IpAddress address(const fabric::Graph& fabric, uint32_t index);
FlowDemand demand(const fabric::Graph& fabric, uint64_t id, uint32_t src, uint32_t dst, uint64_t bytes);
// Host k sends to host k + step; a ring when `order` lists all hosts.
std::vector<FlowDemand> ring(const fabric::Graph& fabric, const std::vector<uint32_t>& order, uint64_t bytes);
// Hosts 0..n-1 so that neighbours sit on different leaves.
std::vector<uint32_t> interleaved(uint32_t hosts, uint32_t leaves);

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(engine_() % limit); }
  std::vector<uint32_t> permutation(uint32_t size);

 private:
  std::mt19937 engine_;
};

fabric::LinkId link(const fabric::Graph& fabric, const std::string& name);
// Sets both directions between two nodes up or down.
void set_cable(fabric::Graph& fabric, const std::string& a, const std::string& b, bool up);

// Flows of one phase per link, recomputed from the paths.
std::vector<uint32_t> flows_per_link(const fabric::Graph& fabric, const Plan& plan);

// What is wrong with a plan whatever its quality: broken paths, wrong totals, a bound above the result. Empty: nothing.
std::string faults(const Snapshot& snapshot, const Plan& plan);

// The least possible drain time of the busiest link, by trying every assignment of the flows.
uint64_t brute_force_ns(const Snapshot& snapshot);

// Plans and requires that faults() finds none.
Plan plan_checked(const Snapshot& snapshot);

}  // namespace orrery::planner::testing
