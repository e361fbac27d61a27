// Jobs: what ranks compute and which collectives they start, iteration by iteration, and where they are placed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/sim/model/traffic.h"
#include "tools/sim/workload/collectives.h"

namespace orrery::sim {

// Which ranks run a collective together: blocks of size * stride consecutive ranks, of which every stride-th is in one
// group. Tensor parallelism of 8 is {8, 1}, data parallelism of 16 over it {16, 8}. Size 0: all ranks of the job.
struct Group {
  uint32_t size = 0;
  uint32_t stride = 1;
  auto operator<=>(const Group&) const = default;
};

// Ranks compute, then start the collective. An exposed one holds back the next step of its ranks, an overlapped one
// only the end of the iteration. Collectives of one group follow each other, as on one stream.
struct JobStep {
  Time compute = 0;
  std::optional<Collective> collective;
  Group group;
  bool overlapped = false;
};

struct Job {
  std::string name;
  std::vector<uint32_t> hosts;  // in rank order: rank r is on hosts[r / ranks_per_host]
  uint32_t ranks_per_host = 1;
  uint32_t iterations = 1;
  Time start = 0;
  double jitter = 0;  // standard deviation of every compute time, as a share of it
  uint64_t seed = 1;
  CommunicatorOptions options;
  std::vector<JobStep> setup;  // once, before the first iteration and in no round
  std::vector<JobStep> steps;

  uint32_t ranks() const { return static_cast<uint32_t>(hosts.size()) * ranks_per_host; }
};

// Adds the job with a Round per iteration, and phases for its flows where no collective overlaps another. Errors:
// kInvalidArgument names the job and the step; `traffic` is unchanged then.
Result<uint32_t> add_job(Traffic& traffic, const Job& job);

// What a job will take at most: to be asked before add_job(), whatever a file claims. In floating point, because that
// need not fit an integer.
struct JobSize {
  double tasks = 0;
  double transfers = 0;
  double edges = 0;
  double flows = 0;
  double rounds = 0;
  double round_tasks = 0;    // that these begin and end with
  double message_bytes = 0;  // of the largest transfer

  JobSize& operator+=(const JobSize& other);
};
JobSize size_of(const Job& job);
uint64_t tasks_of(const Job& job);

enum class Placement : uint8_t {
  kContiguous,  // leaf by leaf
  kFragmented,  // round robin over the leaves
  kRandom       // by seed
};
std::string_view name_of(Placement placement);
std::optional<Placement> placement_of(std::string_view name);

// Hosts for jobs that need so many each, no host twice. Errors: kExhausted says how many there are.
Result<std::vector<std::vector<uint32_t>>> place(const fabric::Graph& graph, const std::vector<uint32_t>& host_counts,
                                                 Placement placement, uint64_t seed);

}  // namespace orrery::sim
