// Readers of other tools' files. Each takes real files as they are, or says which line (byte offset, for binary files)
// it cannot take, why, and what to do. All are bounded: a file may have kMaxInputBytes, and what it prescribes
// operation by operation the tasks that ReadOptions allows. Jobs are only described: ask size_of() before they are
// built.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "tools/sim/workload/workload.h"

namespace orrery::sim {

inline constexpr size_t kMaxInputBytes = 256u << 20;  // of all files of a workload together

enum class Format : uint8_t {
  kAicb,       // AICB's CSV: every collective of a training run, in order
  kSimai,      // SimAI's text: per layer, computation and collective of each pass
  kHtsim,      // htsim's connection matrix, with triggers
  kNcclTests,  // what a nccl-tests program prints: one collective per size
  kIntents,    // what `orreryctl watch --json` or `orreryctl forecast list --json` print, a line each
  kChakra      // Chakra execution traces, one file per rank
};
std::string_view name_of(Format format);  // "aicb", "simai", "htsim", "nccl-tests", "intents", "chakra"
std::optional<Format> format_of(std::string_view name);

// What these options are called where they are given, for cures.
struct OptionNames {
  std::string_view ranks = "ranks", ranks_per_host = "ranks_per_host", iterations = "iterations", op = "op",
                   format = "format";
};

struct ReadOptions {
  uint32_t ranks = 0;           // 0: as the file says; needed where it does not
  uint32_t ranks_per_host = 1;  // consecutive ranks
  uint32_t iterations = 0;      // 0: as the file says, else 1
  double jitter = 0;
  uint64_t seed = 1;
  std::optional<Op> op;  // nccl-tests: which program it was, where the output leaves it open
  CommunicatorOptions communicators;
  OptionNames names;
  uint64_t max_tasks = 20'000'000;  // that a file may prescribe, steps of a job among them
};

// One file, or for kChakra one per rank in rank order. `name` is for messages.
struct Input {
  std::string name;
  std::string text;
};
Result<Workload> read_workload(Format format, const std::vector<Input>& inputs, const ReadOptions& options);
// kChakra: `path` is the prefix of PATH.0.et, PATH.1.et, ... or of one of them.
Result<Workload> load_workload(Format format, const std::string& path, const ReadOptions& options);

Result<Workload> read_aicb(const Input& input, const ReadOptions& options);
Result<Workload> read_simai(const Input& input, const ReadOptions& options);
Result<Workload> read_htsim(const Input& input, const ReadOptions& options);
Result<Workload> read_nccl_tests(const Input& input, const ReadOptions& options);
Result<Workload> read_intents(const Input& input, const ReadOptions& options);
Result<Workload> read_chakra(const std::vector<Input>& inputs, const ReadOptions& options);

}  // namespace orrery::sim
