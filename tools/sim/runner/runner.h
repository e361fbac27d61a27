// Ablation: one traffic over one fabric, under each scheme and seed, beside the ideal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/sim/model/lowering.h"
#include "tools/sim/runner/summary.h"

namespace orrery::sim {

// Runs a program on a fabric as the scheme's NICs would, with the seed's luck.
using EngineRun = std::function<Result<RunResult>(const fabric::Graph&, const Program&, Scheme, uint64_t seed)>;

struct RunStart {
  size_t done = 0;  // runs before this one
  size_t total = 0;
  std::string what;        // "ideal", "ecmp, seed 3"
  uint64_t data_hops = 0;  // data packets times links, about; 0: no packets
};

struct Observation {
  const Run& run;
  const Program& program;
  const Routed& routed;
  const RunResult& result;
};

struct Study {
  const fabric::Graph* graph = nullptr;
  const Traffic* traffic = nullptr;
  EngineRun engine;
  std::vector<Scheme> schemes;  // at least one
  std::vector<uint64_t> seeds;  // at least one
  SchemeOptions options;        // without seed
  bool ideal = true;
  // LoweringOptions::clock_error_ps; not set: clocks are right.
  std::function<std::vector<int64_t>(uint64_t seed)> clock_errors;
  std::function<void(const RunStart&)> on_start;   // may be empty
  std::function<void(const Observation&)> on_run;  // may be empty; not for the ideal
};

struct StudyResult {
  std::optional<Run> ideal;        // on the same fabric with core links kIdealFactor times as fast
  std::vector<Run> runs;           // by scheme, then by seed
  std::vector<Summary> summaries;  // by scheme
  double ideal_ms() const;         // its mean; 0: none
};

inline constexpr uint64_t kIdealFactor = 100;
// The same fabric with links between switches kIdealFactor times as fast: only NICs limit anyone.
fabric::Graph non_blocking(const fabric::Graph& graph);

// Errors: those of the schemes, of lower() and of the engine, with scheme and seed before them.
Result<StudyResult> run_study(const Study& study);

}  // namespace orrery::sim
