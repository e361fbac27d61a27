// orrery-bench: a collective benchmark in the manner of nccl-tests, one rank per process, for any libnccl.so.2.
#include <cstdio>
#include <fstream>
#include <memory>

#include "tools/lab/bench/options.h"
#include "tools/lab/bench/report.h"
#include "tools/lab/bench/runner.h"

namespace orrery::bench {
namespace {

constexpr int kExitWrongData = 1;
constexpr int kExitUsage = 2;
constexpr int kExitFailed = 3;

Result<ncclComm_t> make_communicator(const Placement& placement, Rendezvous& rendezvous) {
  ncclUniqueId id{};
  if (placement.rank == 0) {
    if (const auto result = ncclGetUniqueId(&id); result != ncclSuccess) return nccl_error("ncclGetUniqueId", result);
  }
  if (placement.nranks > 1) ORRERY_TRY(rendezvous.broadcast(&id, sizeof id));
  ncclComm_t comm = nullptr;
  const auto result = ncclCommInitRank(&comm, placement.nranks, id, placement.rank);
  if (result != ncclSuccess) return nccl_error("ncclCommInitRank", result);
  return comm;
}

Status write_json(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) return Error{ErrorCode::kSystem, "cannot write " + path};
  return {};
}

Result<std::vector<SizeResult>> run_sizes(const Options& options, const Placement& placement, Runner& runner) {
  std::vector<SizeResult> results;
  for (double bytes = static_cast<double>(options.min_bytes); bytes <= static_cast<double>(options.max_bytes);
       bytes *= options.step_factor) {
    ORRERY_ASSIGN(SizeResult result, runner.run(static_cast<uint64_t>(bytes)));
    if (placement.rank == 0) print_size(stdout, options, placement, result);
    results.push_back(std::move(result));
    if (bytes == 0) break;
  }
  return results;
}

Result<int> run(const Options& options, const Placement& placement) {
  ORRERY_ASSIGN(const auto memory, Memory::open(placement.local_rank));
  ORRERY_ASSIGN(Rendezvous rendezvous,
                Rendezvous::meet(placement.master, placement.rank, placement.nranks, options.timeout_s));
  ORRERY_ASSIGN(const ncclComm_t comm, make_communicator(placement, rendezvous));
  RunInfo info{.memory = memory->name()};
  if (const auto result = ncclGetVersion(&info.nccl_version); result != ncclSuccess) {
    return nccl_error("ncclGetVersion", result);
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> iterations_file(nullptr, &std::fclose);
  if (placement.rank == 0 && !options.iterations_path.empty()) {
    iterations_file.reset(std::fopen(options.iterations_path.c_str(), "a"));
    if (!iterations_file) return system_error("open " + options.iterations_path, errno);
  }
  if (placement.rank == 0) print_header(stdout, options, placement, info);
  Runner runner(options, placement, comm, *memory, rendezvous, iterations_file.get());
  ORRERY_ASSIGN(const auto results, run_sizes(options, placement, runner));
  if (const auto result = ncclCommDestroy(comm); result != ncclSuccess) return nccl_error("ncclCommDestroy", result);
  uint64_t wrong = 0;
  for (const auto& result : results) wrong += result.wrong;
  if (placement.rank == 0) {
    print_footer(stdout, results);
    if (!options.json_path.empty()) {
      ORRERY_TRY(write_json(options.json_path, to_json(options, placement, info, results)));
    }
  }
  return wrong == 0 ? 0 : kExitWrongData;
}

int main_with(int argc, char** argv) {
  const Parsed parsed = parse_command_line(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto placement = read_placement();
  if (!placement) {
    std::fprintf(stderr, "orrery-bench: %s\n", placement.error().message.c_str());
    return kExitUsage;
  }
  if (parsed.options.root >= placement->nranks) {
    std::fprintf(stderr, "orrery-bench: --root %d is not one of the %d ranks\n", parsed.options.root,
                 placement->nranks);
    return kExitUsage;
  }
  const auto code = run(parsed.options, *placement);
  if (code) return *code;
  std::fprintf(stderr, "orrery-bench: rank %d: %s\n", placement->rank, code.error().message.c_str());
  return kExitFailed;
}

}  // namespace
}  // namespace orrery::bench

int main(int argc, char** argv) {
  return orrery::bench::main_with(argc, argv);
}
