// What is to be run, before it is placed on a fabric: jobs, or traffic that a file prescribes transfer by transfer.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "tools/sim/workload/jobs.h"

namespace orrery::sim {

struct Workload {
  uint32_t hosts = 0;     // hosts are numbered 0..hosts - 1 here
  std::vector<Job> jobs;  // their `hosts` in this numbering
  Traffic fixed;          // prescribed; in this numbering too
};

// Most tasks that the workload will take: to be asked before traffic_of().
uint64_t tasks_of(const Workload& workload);

// `host_of`: the index of each of its hosts in fabric::Graph::nics(). Errors: those of add_job(); kInvalidArgument when
// host_of is too short.
Result<Traffic> traffic_of(const Workload& workload, const std::vector<uint32_t>& host_of);

}  // namespace orrery::sim
