#include "tools/lab/bench/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <map>

namespace orrery::bench {
namespace {

const std::map<std::string, Collective> kCollectives = {{"all-reduce", Collective::kAllReduce},
                                                        {"all-gather", Collective::kAllGather},
                                                        {"reduce-scatter", Collective::kReduceScatter},
                                                        {"broadcast", Collective::kBroadcast},
                                                        {"reduce", Collective::kReduce},
                                                        {"all-to-all", Collective::kAllToAll},
                                                        {"send-recv", Collective::kSendRecv}};

const std::map<std::string, ncclDataType_t> kDatatypes = {
    {"int8", ncclInt8},      {"uint8", ncclUint8},      {"int32", ncclInt32},  {"uint32", ncclUint32},
    {"int64", ncclInt64},    {"uint64", ncclUint64},    {"half", ncclFloat16}, {"float", ncclFloat32},
    {"double", ncclFloat64}, {"bfloat16", ncclBfloat16}};

const std::map<std::string, ncclRedOp_t> kOps = {
    {"sum", ncclSum}, {"prod", ncclProd}, {"max", ncclMax}, {"min", ncclMin}, {"avg", ncclAvg}};

const std::map<std::string, Check> kChecks = {{"every", Check::kEvery}, {"ends", Check::kEnds}, {"off", Check::kOff}};

template <typename T>
CLI::IsMember names_of(const std::map<std::string, T>& names) {
  std::vector<std::string> list;
  for (const auto& [name, value] : names) list.push_back(name);
  return CLI::IsMember(list);
}

// Faults that only show when options are seen together.
std::string find_conflict(const Options& options) {
  if (options.max_bytes < options.min_bytes) return "--max-bytes is smaller than --min-bytes";
  if (options.in_place &&
      (options.collective == Collective::kAllToAll || options.collective == Collective::kSendRecv)) {
    return "--in-place: " + options.collective_name + " cannot work in place";
  }
  return {};
}

std::optional<int> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end ? -1 : static_cast<int>(value);
}

}  // namespace

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce;
}

Parsed parse_command_line(int argc, char** argv) {
  Options options;
  CLI::App app{"Times collectives of any libnccl.so.2, one rank per process, and checks their data", "orrery-bench"};
  app.footer(
      "Ranks come from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (as torchrun sets them), or Open MPI's or Slurm's "
      "variables.\n"
      "Exit: 0 all well, 1 wrong data, 2 wrong usage, 3 the library or a rank failed.");
  std::string check = "every";
  bool no_check = false;
  app.add_option("collective", options.collective_name, "What to run")->required()->check(names_of(kCollectives));
  app.add_option("--min-bytes", options.min_bytes, "Smallest size")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-bytes", options.max_bytes, "Largest size (default: --min-bytes)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--step-factor", options.step_factor, "Each size is the one before times this")
      ->check(CLI::Range(1.01, 1e6))
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "Iterations before those that count")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--iterations", options.iterations, "Iterations of each size")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--duration-s", options.duration_s, "Do fewer iterations of a size rather than take longer than this")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--compute-gap-us", options.compute_gap_us, "Pause before each iteration, as computing would make")
      ->check(CLI::Range(0, 60'000'000));
  app.add_flag("--barrier", options.barrier, "Wait for all ranks before each iteration (outside the time that counts)");
  app.add_flag("--in-place", options.in_place, "Send and receive in one buffer");
  auto* check_option =
      app.add_option("--check", check, "Which iterations' data to check: every, ends (first and last), off")
          ->check(names_of(kChecks))
          ->expected(0, 1)
          ->default_str("every");
  app.add_flag("--no-check", no_check, "As --check off")->excludes(check_option);
  app.add_option("--datatype", options.datatype_name, "Element type")
      ->check(names_of(kDatatypes))
      ->capture_default_str();
  app.add_option("--op", options.op_name, "Reduction")->check(names_of(kOps))->capture_default_str();
  app.add_option("--root", options.root, "Root rank of broadcast and reduce")->check(CLI::NonNegativeNumber);
  app.add_flag("--channels-info", options.channels_info, "Print the settings that decide channels and connections");
  app.add_option("--json", options.json_path, "Write the results there (rank 0)");
  app.add_option(
      "--iterations-file", options.iterations_path,
      "Append a line per iteration there as it ends (rank 0): bytes, index, start in Unix ns, duration in us");
  app.add_option("--timeout-s", options.timeout_s, "How long to wait for the other ranks")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {options, app.exit(error) == 0 ? 0 : 2};
  }
  options.collective = kCollectives.at(options.collective_name);
  options.datatype = kDatatypes.at(options.datatype_name);
  options.op = kOps.at(options.op_name);
  options.check = no_check ? Check::kOff : kChecks.at(check.empty() ? "every" : check);
  if (options.max_bytes == 0) options.max_bytes = options.min_bytes;
  if (const std::string conflict = find_conflict(options); !conflict.empty()) {
    std::fprintf(stderr, "orrery-bench: %s\n", conflict.c_str());
    return {options, 2};
  }
  return {options, std::nullopt};
}

Result<Placement> read_placement() {
  Placement placement;
  struct Names {
    const char *rank, *size, *local;
  };
  for (const Names& names : {Names{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
                             Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                             Names{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}}) {
    const auto rank = environment_number(names.rank);
    const auto size = environment_number(names.size);
    if (!rank && !size) continue;
    if (!rank || !size || *size < 1 || *rank < 0 || *rank >= *size) {
      return Error{ErrorCode::kInvalidArgument, std::string(names.rank) + " and " + names.size +
                                                    " must both be set, the rank from 0 to below the size"};
    }
    placement.rank = *rank;
    placement.nranks = *size;
    placement.local_rank = std::max(environment_number(names.local).value_or(0), 0);
    break;
  }
  const char* address = std::getenv("MASTER_ADDR");
  if (!address && placement.nranks > 1) {
    return Error{ErrorCode::kInvalidArgument, "set MASTER_ADDR to an address of rank 0's host that all ranks reach"};
  }
  int port = environment_number("MASTER_PORT").value_or(29400);
  // torchrun's own store listens on MASTER_PORT then.
  const char* agent_store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent_store && std::strcmp(agent_store, "True") == 0) ++port;
  if (port < 1 || port > 65535) return Error{ErrorCode::kInvalidArgument, "MASTER_PORT is not a port number"};
  placement.master = std::string(address ? address : "127.0.0.1") + ":" + std::to_string(port);
  return placement;
}

}  // namespace orrery::bench
