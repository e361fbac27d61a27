// What one run of orrery-bench is asked to do: from the command line and the launcher's environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "tools/lab/hostnccl/include/nccl.h"

namespace orrery::bench {

enum class Collective { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce, kAllToAll, kSendRecv };
enum class Check { kEvery, kEnds, kOff };  // kEnds: the first and last iteration of a size

struct Options {
  Collective collective = Collective::kAllReduce;
  std::string collective_name;
  uint64_t min_bytes = 4 << 20;
  uint64_t max_bytes = 0;  // 0: as min_bytes
  double step_factor = 2;
  int warmup = 2;
  int iterations = 20;
  double duration_s = 0;  // 0: no limit; else fewer iterations per size when they would take longer
  int compute_gap_us = 0;
  bool barrier = false;  // between iterations
  bool in_place = false;
  Check check = Check::kEvery;
  std::string datatype_name = "float";
  ncclDataType_t datatype = ncclFloat32;
  std::string op_name = "sum";
  ncclRedOp_t op = ncclSum;
  int root = 0;
  bool channels_info = false;
  std::string json_path;
  std::string iterations_path;
  double timeout_s = 120;  // for the ranks to meet
};

// Who this process is among the ranks.
struct Placement {
  int rank = 0;
  int nranks = 1;
  int local_rank = 0;
  std::string master = "127.0.0.1:29400";
};

struct Parsed {
  Options options;
  std::optional<int> exit_code;  // set: nothing to run (help was printed, or the usage was wrong and said so)
};

Parsed parse_command_line(int argc, char** argv);

// RANK/WORLD_SIZE/LOCAL_RANK/MASTER_ADDR/MASTER_PORT (torchrun), else Open MPI's or Slurm's variables, else a single
// rank.
Result<Placement> read_placement();

bool reduces(Collective collective);
bool has_root(Collective collective);

}  // namespace orrery::bench
