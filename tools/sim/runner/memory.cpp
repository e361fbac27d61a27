#include "tools/sim/runner/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tools/sim/workload/jobs.h"

namespace orrery::sim {

uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("MemAvailable:", 0) == 0) return 1024 * std::stoull(line.substr(line.find_first_of("0123456789")));
  return 0;
}

uint64_t memory_needed(const Traffic& traffic, std::span<const Scheme> schemes, const SchemeOptions& options) {
  const bool split = std::find(schemes.begin(), schemes.end(), Scheme::kEcmpMulti) != schemes.end();
  const uint64_t connections = split ? std::max(1u, options.connections) : 1;
  // A path of kMaxPathLinks links as the planner, the scheme and the program hold it, at both ends.
  constexpr uint64_t kBytesPerPath = 400;
  const bool moves = std::any_of(schemes.begin(), schemes.end(), [](Scheme s) {
    return s != Scheme::kEcmp && s != Scheme::kEcmpMulti && s != Scheme::kFirstFit && s != Scheme::kOrreryPaths;
  });
  const uint64_t paths = moves ? options.path_limit : 2;
  return memory_of(traffic.transfers.size() * connections) +
         traffic.flows.size() * kBytesPerPath * std::max(connections, paths);
}

Status check_memory(uint64_t needed, uint64_t limit) {
  if (limit == 0 || needed <= limit) return {};
  const auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(1u << 30); };
  return Error{
      ErrorCode::kExhausted,
      fmt::format("the run needs {:.1f} GiB, have {:.1f}: take fewer rounds or ranks, merge the steps of rings "
                  "(--ring-steps 32), or allow more (--memory-gib)",
                  gib(needed), gib(limit))};
}

}  // namespace orrery::sim
