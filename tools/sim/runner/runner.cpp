#include "tools/sim/runner/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <numeric>

namespace orrery::sim {
namespace {

constexpr uint64_t kPayload = 4'000;  // of the estimate only

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

uint64_t data_hops(const Program& program) {
  uint64_t hops = 0;
  for (const Message& message : program.messages) {
    const PathLinks& path = program.paths[program.qp_paths[program.qps[message.qp].first_path]];
    const auto links = std::find(std::begin(path.links), std::end(path.links), kNone) - std::begin(path.links);
    hops += (message.bytes / kPayload + 1) * static_cast<uint64_t>(links);
  }
  return hops;
}

uint64_t bytes_of(const Program& program) {
  uint64_t bytes = 0;
  for (const Message& message : program.messages) bytes += message.bytes;
  return bytes;
}

class StudyRunner {
 public:
  explicit StudyRunner(const Study& study) : study_(study) {
    result_.total = study.schemes.size() * study.seeds.size() + (study.ideal ? 1 : 0);
  }

  Result<StudyResult> run() {
    if (study_.known) recall();
    known_ = result_.done();
    if (study_.ideal && !result_.ideal) {
      // Any path will do there.
      ORRERY_ASSIGN(result_.ideal, run_one(non_blocking(*study_.graph), Scheme::kEcmp, study_.seeds.front(), true));
      summarise_all();
      ORRERY_TRY(step());
    }
    size_t at = 0;
    for (const Scheme scheme : study_.schemes) {
      const size_t first = at;
      for (const uint64_t seed : study_.seeds) {
        if (is_at(at, scheme, seed)) {
          ++at;
          continue;
        }
        ORRERY_ASSIGN(Run run, run_one(*study_.graph, scheme, seed, false));
        result_.runs.insert(result_.runs.begin() + static_cast<std::ptrdiff_t>(at++), std::move(run));
        summarise_from(first);
        ORRERY_TRY(step());
      }
    }
    if (known_ == result_.total) ORRERY_TRY(step());
    return std::move(result_);
  }

 private:
  // All that is known comes first: what on_step() saves never holds less than there was.
  void recall() {
    if (study_.ideal) result_.ideal = study_.known(Scheme::kEcmp, study_.seeds.front(), true);
    for (const Scheme scheme : study_.schemes)
      for (const uint64_t seed : study_.seeds)
        if (auto run = study_.known(scheme, seed, false)) result_.runs.push_back(std::move(*run));
    summarise_all();
  }

  bool is_at(size_t at, Scheme scheme, uint64_t seed) const {
    return at < result_.runs.size() && result_.runs[at].scheme == scheme && result_.runs[at].seed == seed;
  }

  Status step() const { return study_.on_step ? study_.on_step(result_) : Status(); }

  void summarise_all() {
    for (size_t first = 0; first < result_.runs.size();) first = summarise_from(first);
  }

  // The runs of one scheme, which begin at `first`. Returns where they end.
  size_t summarise_from(size_t first) {
    const Scheme scheme = result_.runs[first].scheme;
    std::vector<const Run*> runs;
    size_t end = first;
    for (; end < result_.runs.size() && result_.runs[end].scheme == scheme; ++end) runs.push_back(&result_.runs[end]);
    auto& summaries = result_.summaries;
    auto place = std::find_if(summaries.begin(), summaries.end(), [&](const Summary& s) { return s.scheme == scheme; });
    // In the order of the runs: what stands behind the scheme's has its summary already.
    if (place == summaries.end()) {
      const auto next = end == result_.runs.size()
                            ? summaries.end()
                            : std::find_if(summaries.begin(), summaries.end(),
                                           [&](const Summary& s) { return s.scheme == result_.runs[end].scheme; });
      place = summaries.emplace(next);
    }
    *place = summarise(runs, result_.ideal_ms());
    return end;
  }

  Result<Run> run_one(const fabric::Graph& graph, Scheme scheme, uint64_t seed, bool ideal) {
    const std::string what = ideal ? "ideal" : fmt::format("{}, seed {}", name_of(scheme), seed);
    const auto named = [&](const Error& error) { return Error{error.code, what + ": " + error.message}; };
    SchemeOptions options = study_.options;
    options.seed = seed;
    auto routed = route(*study_.traffic, graph, scheme, options);
    if (!routed) return named(routed.error());
    LoweringOptions lowering;
    if (study_.clock_errors) lowering.clock_error_ps = study_.clock_errors(seed);
    lowering.phases = routed->phases;
    auto program = lower(*study_.traffic, routed->flows, graph, lowering);
    if (!program) return named(program.error());
    if (study_.on_start)
      study_.on_start({result_.done(), known_, result_.total, what, data_hops(*program), bytes_of(*program)});
    const double before = cpu_seconds();
    const bool record = study_.record && !ideal && seed == study_.seeds.front();
    auto result = study_.engine(graph, *program, {scheme, seed, record, {.on_pulse = study_.on_pulse}});
    if (!result) return named(result.error());
    Run run = summarise(graph, *study_.traffic, *result);
    run.scheme = scheme;
    run.seed = seed;
    run.planned_drain = routed->planned_drain;
    run.lower_bound = routed->lower_bound;
    run.cpu_s = cpu_seconds() - before;
    if (!ideal && study_.on_run) study_.on_run({run, *program, *routed, *result});
    return run;
  }

  const Study& study_;
  size_t known_ = 0;  // runs of an earlier study
  StudyResult result_;
};

}  // namespace

double StudyResult::ideal_ms() const {
  if (!ideal || ideal->times_ms.empty()) return 0;
  return std::accumulate(ideal->times_ms.begin(), ideal->times_ms.end(), 0.0) /
         static_cast<double>(ideal->times_ms.size());
}

fabric::Graph non_blocking(const fabric::Graph& graph) {
  fabric::Graph fast = graph;
  for (const fabric::LinkId link : core_links(graph))
    fast.set_link_rate(link, graph.link(link).rate_bps * kIdealFactor);
  return fast;
}

Result<StudyResult> run_study(const Study& study) {
  return StudyRunner(study).run();
}

}  // namespace orrery::sim
