#include "tools/lab/bench/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace orrery::bench {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// 10^9 bytes per second.
double algorithm_bandwidth(const SizeResult& result) {
  return static_cast<double>(result.bytes) / (mean(result.iterations_ms) * 1e6);
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

void print_header(std::FILE* out, const Options& options, const Placement& placement, const RunInfo& info) {
  std::fprintf(out, "# orrery-bench %s: %d ranks, NCCL %d, %s memory, warm-up %d, iterations %d, %s\n",
               options.collective_name.c_str(), placement.nranks, info.nccl_version, info.memory.c_str(),
               options.warmup, options.iterations, options.in_place ? "in place" : "out of place");
  std::fprintf(out, "# time: mean over iterations of the slowest rank, from the call to completion\n");
  if (options.channels_info) {
    for (const char* name : {"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_NSOCKS_PERTHREAD",
                             "NCCL_SOCKET_NTHREADS", "NCCL_SOCKET_IFNAME", "HOSTNCCL_SLICE_BYTES", "NCCL_NET",
                             "NCCL_IB_HCA", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_SPLIT_DATA_ON_QPS"}) {
      const char* value = std::getenv(name);
      std::fprintf(out, "# %s=%s\n", name, value ? value : "(not set)");
    }
  }
  std::fprintf(out, "#%12s %12s %10s %7s %5s %12s %12s %9s %9s %8s\n", "size", "count", "type", "redop", "root", "time",
               "p99", "algbw", "busbw", "#wrong");
  std::fprintf(out, "#%12s %12s %10s %7s %5s %12s %12s %9s %9s %8s\n", "(B)", "(elements)", "", "", "", "(us)", "(us)",
               "(GB/s)", "(GB/s)", "");
  std::fflush(out);
}

void print_size(std::FILE* out, const Options& options, const Placement& placement, const SizeResult& result) {
  const double bandwidth = algorithm_bandwidth(result);
  const std::string root = has_root(options.collective) ? std::to_string(options.root) : "-1";
  const std::string op = reduces(options.collective) ? options.op_name : "none";
  const std::string wrong = result.checked > 0 ? std::to_string(result.wrong) : "N/A";
  std::fprintf(out, " %12llu %12llu %10s %7s %5s %12.1f %12.1f %9.4f %9.4f %8s\n",
               static_cast<unsigned long long>(result.bytes), static_cast<unsigned long long>(result.count),
               options.datatype_name.c_str(), op.c_str(), root.c_str(), mean(result.iterations_ms) * 1e3,
               percentile(result.iterations_ms, 0.99) * 1e3, bandwidth,
               bandwidth * bus_factor(options.collective, placement.nranks), wrong.c_str());
  std::fflush(out);
}

void print_footer(std::FILE* out, const std::vector<SizeResult>& results) {
  uint64_t wrong = 0;
  for (const auto& result : results) wrong += result.wrong;
  std::fprintf(out, "# wrong elements: %llu %s\n", static_cast<unsigned long long>(wrong),
               wrong == 0 ? "OK" : "FAILED");
}

std::string to_json(const Options& options, const Placement& placement, const RunInfo& info,
                    const std::vector<SizeResult>& results) {
  nlohmann::json document = {{"schema", 1},
                             {"collective", options.collective_name},
                             {"nranks", placement.nranks},
                             {"datatype", options.datatype_name},
                             {"redop", reduces(options.collective) ? options.op_name : "none"},
                             {"root", has_root(options.collective) ? options.root : -1},
                             {"in_place", options.in_place},
                             {"warmup", options.warmup},
                             {"compute_gap_us", options.compute_gap_us},
                             {"nccl_version", info.nccl_version},
                             {"memory", info.memory},
                             {"sizes", nlohmann::json::array()}};
  for (const auto& result : results) {
    const double gigabits = algorithm_bandwidth(result) * 8;
    document["sizes"].push_back({{"bytes", result.bytes},
                                 {"count", result.count},
                                 {"iterations_ms", result.iterations_ms},
                                 {"mean_ms", mean(result.iterations_ms)},
                                 {"p50_ms", percentile(result.iterations_ms, 0.5)},
                                 {"p99_ms", percentile(result.iterations_ms, 0.99)},
                                 {"max_ms", percentile(result.iterations_ms, 1)},
                                 {"algbw_gbps", gigabits},
                                 {"busbw_gbps", gigabits * bus_factor(options.collective, placement.nranks)},
                                 {"wrong", result.wrong},
                                 {"verified", result.checked > 0 && result.wrong == 0}});
  }
  return document.dump(1) + "\n";
}

}  // namespace orrery::bench
