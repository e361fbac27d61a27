// Ablation: one traffic over one fabric, under each scheme and seed, beside the ideal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "tools/sim/model/lowering.h"
#include "tools/sim/model/watch.h"
#include "tools/sim/runner/summary.h"

namespace orrery::sim {

struct EngineRequest {
  Scheme scheme = Scheme::kEcmp;
  uint64_t seed = 1;
  bool record = false;  // RunResult::waveforms and queues
  bool ideal = false;   // nothing but NICs shall limit anyone
  Watch watch;
};
// Runs a program on a fabric as the scheme's NICs would, with the seed's luck.
using EngineRun = std::function<Result<RunResult>(const fabric::Graph&, const Program&, const EngineRequest&)>;

struct RunStart {
  size_t done = 0;   // runs before this one, in the order of their results: names it
  size_t known = 0;  // runs of an earlier study, which stand before all others here
  size_t total = 0;
  std::string what;        // "ideal", "ecmp, seed 3"
  uint64_t data_hops = 0;  // data packets times links, about; 0: no packets
  uint64_t bytes = 0;      // of all messages: what Pulse::delivered_bytes comes to
};

struct StudyResult {
  std::optional<Run> ideal;        // on the same fabric with core links kIdealFactor times as fast
  std::vector<Run> runs;           // by scheme, then by seed: those that there are
  std::vector<Summary> summaries;  // by scheme, of the runs that there are
  size_t total = 0;                // runs of the whole study, the ideal among them
  size_t done() const { return runs.size() + (ideal ? 1 : 0); }
  double ideal_ms() const;  // its mean; 0: none
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
  bool record = false;  // the first seed of every scheme
  // Of an earlier study of the same: what it knows is in every StudyResult, and not run again unless it must. May be
  // empty.
  std::function<std::optional<Run>(Scheme, uint64_t seed, bool ideal)> known;
  // Runs at a time. Nothing but the order of on_start(), on_pulse() and on_end() depends on it: all callbacks come one
  // at a time, on any thread, results in the order of the runs.
  uint32_t parallel = 1;
  // Leaves of routes what the engine looks at. Where it is set, the engine gives equal results to equal programs,
  // whatever scheme and seed they are of, and those of equal routes are run once. May be empty, as all that follow.
  std::function<void(std::vector<FlowRoute>&)> reduce;
  std::function<bool(Scheme, uint64_t seed)> must_run;  // on_run() is needed, not only the figures
  std::function<void(const RunStart&)> on_start;
  std::function<void(const RunStart&, const Pulse&)> on_pulse;
  std::function<void(const RunStart&)> on_end;
  std::function<void(const Observation&)> on_run;              // not for the ideal
  std::function<void(const Run&, const Run& like)> on_repeat;  // in its place, where nothing new was run
  // After every run, or once when all was known; an error ends the study.
  std::function<Status(const StudyResult&)> on_step;
};

inline constexpr uint64_t kIdealFactor = 100;
// The same fabric with links between switches kIdealFactor times as fast: only NICs limit anyone.
fabric::Graph non_blocking(const fabric::Graph& graph);

// Errors: those of the schemes, of lower() and of the engine, with scheme and seed before them.
Result<StudyResult> run_study(const Study& study);

}  // namespace orrery::sim
