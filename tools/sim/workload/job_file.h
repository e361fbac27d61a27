// What the readers of job files have in common.
#pragma once

#include <string>

#include "tools/sim/workload/input.h"
#include "tools/sim/workload/readers.h"

namespace orrery::sim {

inline constexpr uint32_t kMaxFileRanks = 1u << 22;
inline constexpr Time kMaxComputeNs = 1'000'000'000'000;  // a quarter of an hour

// A job of the file's name and the options, without steps; its hosts are numbered from 0.
Result<Job> job_of_file(const std::string& name, uint32_t ranks, const ReadOptions& options);

// The job alone in a workload.
Workload workload_of(Job job);

// Whether so many ranks can have such groups. `line` for the message.
Status check_group(const std::string& name, uint64_t line, const Group& group, uint32_t ranks);

}  // namespace orrery::sim
