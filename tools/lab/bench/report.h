// The table (in nccl-tests' manner) and the JSON document of a run.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tools/lab/bench/runner.h"

namespace orrery::bench {

struct RunInfo {
  int nccl_version = 0;
  std::string memory;
};

void print_header(std::FILE* out, const Options& options, const Placement& placement, const RunInfo& info);
void print_size(std::FILE* out, const Options& options, const Placement& placement, const SizeResult& result);
void print_footer(std::FILE* out, const std::vector<SizeResult>& results);
// {"schema":1,...}; see docs/reference/orrery-bench.md.
std::string to_json(const Options& options, const Placement& placement, const RunInfo& info,
                    const std::vector<SizeResult>& results);

// Nearest-rank percentile; `share` in (0, 1]. Precondition: not empty.
double percentile(std::vector<double> values, double share);

}  // namespace orrery::bench
