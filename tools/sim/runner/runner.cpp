#include "tools/sim/runner/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>

#include "common/base/digest.h"

namespace orrery::sim {
namespace {

constexpr uint64_t kPayload = 4'000;  // of the estimate only

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
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

std::string digest_of(const std::vector<FlowRoute>& routes, const LoweringOptions& lowering) {
  Digest digest;
  for (const FlowRoute& route : routes) {
    digest.add(route.qps.size());
    digest.add(route.release_offset);
    digest.add(route.pace_bps);
    for (const QpRoute& qp : route.qps) {
      digest.add(qp.paths.size() << 8 | static_cast<uint64_t>(qp.policy));
      for (const fabric::Path& path : qp.paths) {
        for (const fabric::LinkId link : path) digest.add(uint64_t{link});
        digest.add(path.size());
      }
    }
  }
  for (const int64_t error : lowering.clock_error_ps) digest.add(static_cast<uint64_t>(error));
  for (const JobPhase& phase : lowering.phases)
    for (const Time part : {phase.period, phase.phase, phase.max_wait}) digest.add(part);
  return digest.text();
}

// A run that is to be made.
struct Planned {
  Scheme scheme;
  uint64_t seed;
  bool ideal;
  std::string text() const { return ideal ? "ideal" : fmt::format("{}, seed {}", name_of(scheme), seed); }
  Error named(const Error& error) const { return {error.code, text() + ": " + error.message}; }
};

// What is known of it before it is simulated.
struct Prepared {
  Routed routed;
  std::vector<FlowRoute> reduced;  // if Study::reduce is set
  LoweringOptions lowering;
};

class StudyRunner {
 public:
  explicit StudyRunner(const Study& study) : study_(study) {
    result_.total = study.schemes.size() * study.seeds.size() + (study.ideal ? 1 : 0);
  }

  Result<StudyResult> run() {
    ORRERY_TRY(check(*study_.traffic, static_cast<uint32_t>(study_.graph->nics().size())));
    if (study_.known) recall();
    list_runs();
    if (runs_.empty()) ORRERY_TRY(step());
    {
      std::vector<std::jthread> others;
      for (size_t i = 1; i < std::min<size_t>(study_.parallel, runs_.size()); ++i)
        others.emplace_back([this] { work(); });
      work();
    }
    if (thrown_) std::rethrow_exception(thrown_);
    ORRERY_TRY(std::move(status_));
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

  void list_runs() {
    if (study_.ideal && !result_.ideal) {
      fast_ = non_blocking(*study_.graph);
      runs_.push_back({Scheme::kEcmp, study_.seeds.front(), true});  // any path will do there
    }
    size_t at = 0;
    for (const Scheme scheme : study_.schemes)
      for (const uint64_t seed : study_.seeds) {
        const bool is_known = is_at(at, scheme, seed);
        if (is_known) ++at;
        if (!is_known || must_run(scheme, seed)) runs_.push_back({scheme, seed, false});
      }
    known_ = result_.total - runs_.size();
  }

  bool must_run(Scheme scheme, uint64_t seed) const { return study_.must_run && study_.must_run(scheme, seed); }

  const fabric::Graph& graph_of(const Planned& run) const { return run.ideal ? *fast_ : *study_.graph; }
  bool records(const Planned& run) const { return study_.record && !run.ideal && run.seed == study_.seeds.front(); }

  // On each thread until no run is left. One plans at a time, in order: of runs that are alike the first is made.
  void work() {
    for (;;) {
      size_t number = 0;
      Status done;
      try {
        std::unique_lock planning(planning_);
        if (stopped_ || next_ == runs_.size()) return;
        number = next_++;
        const Result<Prepared> prepared = prepare(runs_[number]);
        const size_t like = prepared ? first_like(number, *prepared) : number;
        planning.unlock();
        done = !prepared       ? prepared.error()
               : like < number ? repeat(number, like, *prepared)
                               : simulate(number, *prepared);
      } catch (...) {
        wait_for_turn(number);
        if (!stopped_.exchange(true)) thrown_ = std::current_exception();
      }
      end_turn(number, std::move(done));
    }
  }

  // Results come in the order of the runs, each from the thread that made it.
  void wait_for_turn(size_t number) {
    std::unique_lock lock(turns_);
    turn_.wait(lock, [&] { return taken_ == number; });
  }

  void end_turn(size_t number, Status done) {
    wait_for_turn(number);
    if (!done && !stopped_.exchange(true)) status_ = std::move(done);
    const std::lock_guard lock(turns_);
    ++taken_;
    turn_.notify_all();
  }

  Result<Prepared> prepare(const Planned& run) {
    SchemeOptions options = study_.options;
    options.seed = run.seed;
    auto routed = route(*study_.traffic, graph_of(run), run.scheme, options);
    if (!routed) return run.named(routed.error());
    Prepared prepared{.routed = std::move(*routed), .reduced = {}, .lowering = {}};
    prepared.lowering.checked = true;
    prepared.lowering.phases = prepared.routed.phases;
    if (study_.clock_errors) prepared.lowering.clock_error_ps = study_.clock_errors(run.seed);
    if (study_.reduce) {
      prepared.reduced = prepared.routed.flows;
      study_.reduce(prepared.reduced);
    }
    return prepared;
  }

  // Itself, where none before it gives the same result.
  size_t first_like(size_t number, const Prepared& prepared) {
    const Planned& run = runs_[number];
    if (!study_.reduce) return number;
    const size_t first =
        first_like_.try_emplace({digest_of(prepared.reduced, prepared.lowering), run.ideal, records(run)}, number)
            .first->second;
    return !run.ideal && must_run(run.scheme, run.seed) ? number : first;
  }

  // Callbacks come one at a time.
  template <typename Call>
  auto tell(Call call) {
    const std::lock_guard lock(telling_);
    return call();
  }

  Status simulate(size_t number, const Prepared& prepared) {
    const Planned& what = runs_[number];
    const fabric::Graph& graph = graph_of(what);
    const auto program =
        lower(*study_.traffic, study_.reduce ? prepared.reduced : prepared.routed.flows, graph, prepared.lowering);
    if (!program) return what.named(program.error());
    const RunStart start{known_ + number, known_, result_.total, what.text(), data_hops(*program), bytes_of(*program)};
    if (study_.on_start) tell([&] { study_.on_start(start); });
    EngineRequest request{what.scheme, what.seed, records(what), what.ideal, {}};
    if (study_.on_pulse)
      request.watch.on_pulse = [&](const Pulse& pulse) { tell([&] { study_.on_pulse(start, pulse); }); };
    const clockid_t clock = study_.parallel > 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
    const double before = cpu_seconds(clock);
    const auto result = study_.engine(graph, *program, request);
    if (study_.on_end) tell([&] { study_.on_end(start); });
    if (!result) return what.named(result.error());
    Run run = summarise(graph, *study_.traffic, *result);
    run.cpu_s = cpu_seconds(clock) - before;
    label(run, what, prepared.routed);
    wait_for_turn(number);
    if (stopped_) return {};
    if (!what.ideal && study_.on_run) tell([&] { study_.on_run({run, *program, prepared.routed, *result}); });
    return take(what, std::move(run));
  }

  Status repeat(size_t number, size_t like, const Prepared& prepared) {
    const Planned &what = runs_[number], &first = runs_[like];
    wait_for_turn(number);
    if (stopped_) return {};
    const Run known = *std::find_if(result_.runs.begin(), result_.runs.end(), [&](const Run& run) {
      return run.scheme == first.scheme && run.seed == first.seed;
    });
    Run run = known;
    run.cpu_s = 0;
    label(run, what, prepared.routed);
    if (study_.on_repeat) tell([&] { study_.on_repeat(run, known); });
    return take(what, std::move(run));
  }

  static void label(Run& run, const Planned& what, const Routed& routed) {
    run.scheme = what.scheme;
    run.seed = what.seed;
    run.planned_drain = routed.planned_drain;
    run.lower_bound = routed.lower_bound;
  }

  // Only when it is the run's turn.
  Status take(const Planned& what, Run run) {
    if (what.ideal) {
      result_.ideal = std::move(run);
      summarise_all();
      return tell([&] { return step(); });
    }
    size_t at = 0, scheme_begin = 0;
    for (const Scheme scheme : study_.schemes) {
      scheme_begin = at;
      for (const uint64_t seed : study_.seeds) {
        if (scheme == what.scheme && seed == what.seed) {
          if (is_at(at, scheme, seed))
            result_.runs[at] = std::move(run);
          else
            result_.runs.insert(result_.runs.begin() + static_cast<std::ptrdiff_t>(at), std::move(run));
          summarise_from(scheme_begin);
          return tell([&] { return step(); });
        }
        if (is_at(at, scheme, seed)) ++at;
      }
    }
    return {};
  }

  std::optional<fabric::Graph> fast_;
  std::vector<Planned> runs_;
  std::mutex planning_;  // guards the next two
  size_t next_ = 0;
  std::map<std::tuple<std::string, bool, bool>, size_t> first_like_;  // by routes, ideal, recorded
  std::mutex turns_;
  std::condition_variable turn_;
  size_t taken_ = 0;  // results; of that run all below is
  std::mutex telling_;
  std::atomic<bool> stopped_ = false;
  Status status_;
  std::exception_ptr thrown_;
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
