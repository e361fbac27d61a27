#include "tools/sim/workload/job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace orrery::sim {

Result<Job> job_of_file(const std::string& name, uint32_t ranks, const ReadOptions& options) {
  const uint32_t per_host = std::max(1u, options.ranks_per_host);
  if (ranks == 0 || ranks > kMaxFileRanks)
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: {} ranks; there are 1 to {}: say how many with {}", name,
                                                          ranks, kMaxFileRanks, options.names.ranks)};
  if (ranks % per_host != 0)
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: {} ranks do not divide into hosts of {}; change {}",
                                                          name, ranks, per_host, options.names.ranks_per_host)};
  Job job;
  job.name = name.substr(name.rfind('/') + 1);
  job.hosts.resize(ranks / per_host);
  std::iota(job.hosts.begin(), job.hosts.end(), 0u);
  job.ranks_per_host = per_host;
  job.iterations = std::max(1u, options.iterations);
  job.jitter = options.jitter;
  job.seed = options.seed;
  job.options = options.communicators;
  return job;
}

Workload workload_of(Job job) {
  Workload workload;
  workload.hosts = static_cast<uint32_t>(job.hosts.size());
  workload.jobs.push_back(std::move(job));
  return workload;
}

Status check_group(const std::string& name, uint64_t line, const Group& group, uint32_t ranks) {
  const uint64_t block = uint64_t{group.size} * group.stride;
  if (block != 0 && block <= ranks && ranks % block == 0) return {};
  return line_error(name, line,
                    fmt::format("groups of {} ranks, {} apart, do not divide {} ranks; correct the size, or say how "
                                "many ranks there are",
                                group.size, group.stride, ranks));
}

}  // namespace orrery::sim
