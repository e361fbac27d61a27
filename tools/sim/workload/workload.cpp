#include "tools/sim/workload/workload.h"

#include <fmt/format.h>

namespace orrery::sim {

uint64_t tasks_of(const Workload& workload) {
  uint64_t tasks = workload.fixed.tasks.size();
  for (const Job& job : workload.jobs) tasks += tasks_of(job);
  return tasks;
}

Result<Traffic> traffic_of(const Workload& workload, const std::vector<uint32_t>& host_of) {
  if (host_of.size() < workload.hosts)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the workload has {} hosts and {} are placed", workload.hosts, host_of.size())};
  ORRERY_TRY(check(workload.fixed, workload.hosts));
  Traffic traffic = workload.fixed;
  for (Flow& flow : traffic.flows) {
    flow.src = host_of[flow.src];
    flow.dst = host_of[flow.dst];
  }
  for (Task& task : traffic.tasks) task.host = host_of[task.host];
  for (Job job : workload.jobs) {
    for (uint32_t& host : job.hosts) {
      if (host >= workload.hosts)
        return Error{ErrorCode::kInvalidArgument, fmt::format("job {}: host {} of {}", job.name, host, workload.hosts)};
      host = host_of[host];
    }
    ORRERY_TRY(add_job(traffic, job));
  }
  return traffic;
}

}  // namespace orrery::sim
