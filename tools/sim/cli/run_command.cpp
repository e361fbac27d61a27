#include <fmt/format.h>

#include <memory>
#include <optional>
#include <ostream>

#include "tools/sim/cli/csv.h"
#include "tools/sim/cli/document.h"
#include "tools/sim/cli/progress.h"
#include "tools/sim/cli/run_options.h"
#include "tools/sim/runner/memory.h"

namespace orrery::sim {
namespace {

uint64_t memory_limit(const RunRequest& request) {
  if (request.memory_gib > 0) return static_cast<uint64_t>(request.memory_gib * (1u << 30));
  const uint64_t available = available_memory();
  return available != 0 ? available : UINT64_MAX;
}

Status simulate(const RunRequest& request, const Console& console) {
  const Scenario& scenario = request.scenario;
  ORRERY_ASSIGN(const fabric::Graph graph, graph_of(scenario));
  ORRERY_ASSIGN(const Traffic traffic, traffic_of(scenario, graph, memory_limit(request)));
  ORRERY_TRY(check_memory(memory_needed(traffic, scenario.schemes, scenario.scheme_options), memory_limit(request)));
  Study study;
  study.graph = &graph;
  study.traffic = &traffic;
  study.engine = engine_of(scenario);
  study.schemes = scenario.schemes;
  study.seeds = scenario.seeds;
  study.options = scenario.scheme_options;
  study.ideal = request.ideal;
  study.clock_errors = [&](uint64_t seed) { return clock_errors(scenario, graph, seed); };
  ProgressLine progress(console.err, console.terminal);
  if (request.progress || console.terminal) study.on_start = [&](const RunStart& start) { progress.start(start); };
  std::optional<CsvFiles> csv;
  if (!request.csv.empty()) {
    ORRERY_ASSIGN(csv, CsvFiles::create(request.csv));
    study.on_run = [&](const Observation& observation) { csv->add(graph, traffic, observation); };
  }
  const auto result = run_study(study);
  progress.finish();
  if (!result) return result.error();
  if (csv) ORRERY_TRY(csv->close());
  const nlohmann::json document = document_of(request, graph, *result);
  if (!request.output.empty()) ORRERY_TRY(write_file(request.output, document.dump(1) + "\n"));
  console.out << (request.json ? document.dump(1) + "\n" : render_text(document, console.colour));
  return {};
}

}  // namespace

void add_run_options(CLI::App& app, const Console& console, std::function<int()>& action) {
  auto options = std::make_shared<RunOptions>();
  options->add_to(app);
  app.callback([console, &action, options] {
    action = [console, options] {
      const auto request = options->request();
      if (!request) return report(console, request.error());
      if (const auto done = simulate(*request, console); !done) return report(console, done.error());
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace orrery::sim
