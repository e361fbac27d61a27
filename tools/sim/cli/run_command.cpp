#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <ostream>
#include <thread>

#include "tools/sim/cli/budget.h"
#include "tools/sim/cli/csv.h"
#include "tools/sim/cli/history.h"
#include "tools/sim/cli/progress.h"
#include "tools/sim/cli/run_options.h"
#include "tools/sim/cli/study_file.h"
#include "tools/sim/cli/waveforms.h"

namespace orrery::sim {
namespace {

// One call of `run`: the study, and what is told and written while it goes on.
class RunCommand {
 public:
  RunCommand(const RunRequest& request, const Console& console)
      : request_(request),
        console_(console),
        graph_(*request.graph),
        progress_(console.err, console.terminal, slow_hint(request)),
        output_(request.output),
        page_(request.page) {}

  Status run() {
    const Scenario& scenario = request_.scenario;
    // A fault that the fabric has no place for is told before anything is planned.
    if (const auto config = packet_config(scenario, graph_, scenario.schemes[0], scenario.seeds[0]); !config)
      return config.error();
    ORRERY_TRY(make_traffic());
    ORRERY_TRY(take_up());
    const auto result = run_study(study());
    progress_.finish();
    if (!result) return result.error();
    if (csv_) ORRERY_TRY(csv_->close());
    if (waveforms_) ORRERY_TRY(save_waveforms());
    const nlohmann::json document = document_of(request_, graph_, *result, parts_);
    console_.out << (request_.json ? document.dump(1) + "\n" : render_text(document, console_.colour));
    return {};
  }

 private:
  static std::string slow_hint(const RunRequest& request) {
    if (request.scenario.engine == Engine::kFluid)
      return "this takes minutes; fewer schemes (--scheme ecmp,orrery) take less, and so do ranks that share a host "
             "(--ranks-per-host) and rings of fewer steps (--ring-steps 16, max_steps in a scenario), which have the "
             "same volumes and paths";
    return "packet by packet this takes minutes; --engine fluid moves the same as flows, without queues and losses, "
           "far "
           "sooner";
  }

  // Each part is made when it is known to fit.
  Status make_traffic() {
    Budget budget(request_);
    ORRERY_ASSIGN(const PlacedJobs placed, placed_jobs(request_.scenario, graph_, budget.max_tasks()));
    ORRERY_TRY(budget.check_jobs(graph_, placed));
    ORRERY_ASSIGN(traffic_, traffic_of(request_.scenario, placed));
    ORRERY_TRY(budget.check_traffic(graph_, *traffic_));
    subflows_ = budget.subflows();
    const uint32_t processors = std::max(1u, std::thread::hardware_concurrency());
    const uint32_t wanted = std::max(1u, processors / request_.scenario.packet.threads);
    parallel_ = budget.runs_at_once(request_.parallel != 0 ? request_.parallel : wanted);
    return {};
  }

  // Before hours of work: can the files be written, and what is in them already?
  Status take_up() {
    parts_.jobs = traffic_->jobs;
    parts_.fingerprint = fingerprint_of(request_, graph_, *traffic_);
    if (request_.resume) {
      ORRERY_ASSIGN(known_, KnownRuns::load(request_.output, graph_, parts_));
    }
    if (!request_.csv.empty()) {
      std::erase_if(parts_.csv_digests, [this](const auto& entry) { return !is_wanted(entry.first); });
      ORRERY_ASSIGN(csv_, CsvFiles::create(request_.csv, parts_.csv_digests));
    }
    for (const std::string& path : {request_.output, request_.page, request_.waveforms})
      if (!path.empty() && !std::ofstream(path, std::ios::app)) return cannot_write(path);
    return {};
  }

  bool is_wanted(const RunKey& run) const {
    const Scenario& scenario = request_.scenario;
    const auto has = [](const auto& all, const auto& one) {
      return std::find(all.begin(), all.end(), one) != all.end();
    };
    return has(scenario.schemes, run.first) && has(scenario.seeds, run.second);
  }

  // Its lines are not in the tables, or its waveforms are wanted, which no result keeps.
  bool needs_again(Scheme scheme, uint64_t seed) const {
    return wants_waveforms(scheme, seed) || (csv_ && !csv_->has(scheme, seed));
  }

  Study study() {
    const Scenario& scenario = request_.scenario;
    Study study;
    study.graph = &graph_;
    study.traffic = &*traffic_;
    study.engine = engine_of(scenario);
    study.schemes = scenario.schemes;
    study.seeds = scenario.seeds;
    study.options = scenario.scheme_options;
    study.options.known = subflows_;
    study.ideal = request_.ideal;
    study.clock_errors = [this](uint64_t seed) { return clock_errors(request_.scenario, graph_, seed); };
    study.parallel = parallel_;
    study.reduce = reduction_of(scenario);
    study.must_run = [this](Scheme scheme, uint64_t seed) { return needs_again(scheme, seed); };
    const bool history = request_.history && !(request_.output.empty() && request_.page.empty());
    study.record = history || !request_.waveforms.empty();
    study.known = [this](Scheme scheme, uint64_t seed, bool ideal) { return known_.find(scheme, seed, ideal); };
    if (request_.progress || console_.terminal) {
      study.on_start = [this](const RunStart& start) { progress_.start(start, *traffic_); };
      study.on_pulse = [this](const RunStart& start, const Pulse& pulse) { progress_.pulse(start.done, pulse); };
      study.on_end = [this](const RunStart& start) { progress_.end(start.done); };
    }
    study.on_run = [this, history](const Observation& o) {
      if (wants_waveforms(o.run.scheme, o.run.seed)) waveforms_ = waveforms_file(request_, graph_, *traffic_, o);
      if (csv_ && !csv_->has(o.run.scheme, o.run.seed))
        parts_.csv_digests[{o.run.scheme, o.run.seed}] = csv_->add(graph_, *traffic_, o);
      if (history && !o.result.waveforms.empty())
        parts_.histories[o.run.scheme] = history_of(graph_, o.result, o.run.seed);
    };
    study.on_repeat = [this](const Run& run, const Run& like) {
      if (run.seed != request_.scenario.seeds.front()) return;
      if (const auto first = parts_.histories.find(like.scheme); first != parts_.histories.end())
        parts_.histories[run.scheme] = first->second;
    };
    study.on_step = [this](const StudyResult& result) { return save(result); };
    return study;
  }

  bool wants_waveforms(Scheme scheme, uint64_t seed) const {
    return !request_.waveforms.empty() && scheme == request_.waveforms_of && seed == request_.scenario.seeds.front();
  }

  Status save_waveforms() const {
    if (!*waveforms_) return waveforms_->error();
    return replace_file(request_.waveforms, **waveforms_);
  }

  Status save(const StudyResult& result) {
    const bool last = result.done() == result.total;
    ORRERY_TRY(output_.save(last, [&] { return document_of(request_, graph_, result, parts_).dump() + "\n"; }));
    if (!last) return {};
    return page_.save(last, [&] { return render_html(document_of(request_, graph_, result, parts_)); });
  }

  const RunRequest& request_;
  const Console& console_;
  const fabric::Graph& graph_;
  std::optional<Traffic> traffic_;
  Subflows subflows_;
  std::optional<CsvFiles> csv_;
  std::optional<Result<std::string>> waveforms_;
  uint32_t parallel_ = 1;
  DocumentParts parts_;
  KnownRuns known_;
  ProgressLine progress_;
  Saver output_, page_;
};

}  // namespace

void add_run_options(CLI::App& app, const Console& console, std::function<int()>& action) {
  auto options = std::make_shared<RunOptions>();
  options->add_to(app);
  app.callback([console, &action, options] {
    action = [console, options] {
      const auto request = options->request();
      if (!request) return report(console, request.error());
      if (const auto done = RunCommand(*request, console).run(); !done) return report(console, done.error());
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace orrery::sim
