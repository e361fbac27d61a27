// A folded Clos of two tiers (leaves, spines) or three (pods of leaves and spines, cores above them) made into a
// topology.
//
// Every leaf has cables to every spine of its pod. Cores are in planes: those of plane i have cables to the i-th spine
// of every pod, so that a spine reaches its own plane only, as in a fat tree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/topology.h"

namespace orrery::planning {

struct ClosLeaf {
  std::string name;
  uint32_t pod = 0;  // index in Clos::pods
};

struct ClosHost {
  std::string name;
  std::vector<uint32_t> leaves;  // of each NIC: index in Clos::leaves
};

struct Clos {
  std::string name;
  std::vector<std::string> pods;  // what the names of their spines begin with; "" with a single pod
  std::vector<ClosLeaf> leaves;
  std::vector<ClosHost> hosts;
  uint32_t spines = 1;            // of each pod
  uint32_t cables_per_spine = 1;  // of each leaf, side by side
  uint32_t cores = 0;             // of each plane; 0: two tiers
  uint32_t cables_per_core = 1;   // of each spine, side by side
  uint64_t nic_bps = 0;
  uint64_t uplink_bps = 0;  // leaf to spine
  uint64_t core_bps = 0;    // spine to core
  // Ports in which several cables end (p3.1, p3.2) because they are as fast as so many of them.
  uint32_t nic_split = 1, leaf_up_split = 1, spine_down_split = 1, spine_up_split = 1, core_split = 1;
  uint32_t leaf_host_ports = 0;  // uplinks come after so many ports, taken or not
  uint64_t queue_bytes_per_100g = 16u << 20;
  uint32_t mtu_bytes = 9000;
  uint32_t hash_seed = 1;
};

// Errors: kInvalidArgument says which limit of the topology file is broken, and the cure.
Result<fabric::Topology> topology_of(const Clos& clos);
// The text of the topology's file, which load_topology() takes. Errors: kExhausted when it would be too long.
Result<std::string> topology_file(const fabric::Topology& topology);

}  // namespace orrery::planning
