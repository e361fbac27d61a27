// A placement as files that others read: a scenario with its hosts named, an MPI host file and rank file.
#pragma once

#include <string>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/planning/placement/place.h"

namespace orrery::planning {

// "h1", or "h1:eth0" where the host has several NICs: as scenarios name it.
std::string nic_name(const fabric::Graph& graph, uint32_t nic);

// `text` with the hosts of its jobs replaced; all else stays, comments too. `nics`: by job, in the order of the text.
// Errors: kInvalidArgument when a job's hosts are written in a way that cannot be replaced in place.
Result<std::string> with_hosts(const std::string& text, const std::string& file, const fabric::Graph& graph,
                               const Assignment& nics);

// "h1 slots=8" per host, in the order of its first rank: Open MPI's host file, and whose line gives torchrun's node
// rank.
std::string host_file(const fabric::Graph& graph, const std::vector<uint32_t>& nics, uint32_t ranks_per_nic);
// "rank 0=h1 slot=0": Open MPI's rank file.
std::string rank_file(const fabric::Graph& graph, const std::vector<uint32_t>& nics, uint32_t ranks_per_nic);

}  // namespace orrery::planning
