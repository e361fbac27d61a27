#include "tools/sim/cli/document.h"

#include <fmt/format.h>

#include <fstream>

namespace orrery::sim {
namespace {

using nlohmann::json;

json fabric_of(const fabric::Graph& graph) {
  json links = json::array();
  size_t switches = 0;
  for (const fabric::Node& node : graph.nodes()) switches += node.kind == fabric::NodeKind::kSwitch;
  for (const fabric::LinkId link : core_links(graph))
    links.push_back({{"port", graph.link_name(link)},
                     {"to", graph.node(graph.link(link).to).name},
                     {"rate_bps", graph.link(link).rate_bps}});
  const uint64_t nic_rate = graph.nics().empty() ? 0 : graph.link(graph.nics()[0].uplink).rate_bps;
  return {{"switches", switches}, {"hosts", graph.nics().size()}, {"nic_rate_bps", nic_rate}, {"core_links", links}};
}

json settings_of(const Scenario& scenario) {
  return {{"seeds", scenario.seeds},
          {"connections", scenario.scheme_options.connections},
          {"engine", scenario.engine == Engine::kPacket ? "packet" : "fluid"},
          {"placement", std::string(name_of(scenario.placement))},
          {"pfc", scenario.packet.pfc.enabled},
          {"ecn", scenario.packet.ecn.enabled},
          {"dcqcn", scenario.packet.dcqcn.enabled},
          {"telemetry_every", scenario.packet.telemetry.sample_every},
          {"clock_error_ns", static_cast<double>(scenario.clock_error) / static_cast<double>(kPerNs)}};
}

json run_of(const fabric::Graph& graph, const Run& run) {
  json bytes = json::array();
  if (!run.link_bytes.empty())
    for (const fabric::LinkId link : core_links(graph)) bytes.push_back(run.link_bytes[link]);
  return {{"seed", run.seed},
          {"times_ms", run.times_ms},
          {"job_times_ms", run.job_times_ms},
          {"end_ms", static_cast<double>(run.end) / static_cast<double>(kPerMs)},
          {"link_bytes", bytes},
          {"cpu_s", run.cpu_s},
          {"hops", run.totals.hops}};
}

json scheme_of(const fabric::Graph& graph, const StudyResult& result, const Summary& s) {
  json runs = json::array();
  for (const Run& run : result.runs)
    if (run.scheme == s.scheme) runs.push_back(run_of(graph, run));
  return {{"scheme", std::string(name_of(s.scheme))},
          {"iterations", s.iterations},
          {"unfinished", s.unfinished},
          {"mean_ms", s.mean_ms},
          {"p50_ms", s.p50_ms},
          {"p99_ms", s.p99_ms},
          {"worst_ms", s.worst_ms},
          {"iterations_per_s", s.iterations_per_s},
          {"slowdown", s.slowdown > 0 ? json(s.slowdown) : json()},
          {"max_utilisation", s.max_utilisation},
          {"max_core_utilisation", s.max_core_utilisation},
          {"core_spread", s.core_spread},
          {"max_queue_bytes", s.max_queue_bytes},
          {"drops", s.totals.drops},
          {"retransmits", s.totals.retransmitted},
          {"marks", s.totals.marks},
          {"pauses", s.totals.pauses},
          {"path_changes", s.totals.path_changes},
          {"plan_gap", s.planned ? json(s.plan_gap) : json()},
          {"per_seed", runs}};
}

}  // namespace

json document_of(const RunRequest& request, const fabric::Graph& graph, const StudyResult& result) {
  json schemes = json::array();
  for (const Summary& summary : result.summaries) schemes.push_back(scheme_of(graph, result, summary));
  return {{"schema", 1},
          {"title", request.title},
          {"settings", settings_of(request.scenario)},
          {"fabric", fabric_of(graph)},
          {"ideal_ms", result.ideal_ms() > 0 ? json(result.ideal_ms()) : json()},
          {"ideal_job_times_ms", result.ideal ? json(result.ideal->job_times_ms) : json()},
          {"ideal_per_s", result.ideal ? json(result.ideal->iterations_per_s) : json()},
          {"schemes", schemes}};
}

Result<json> load_document(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{ErrorCode::kNotFound, fmt::format("cannot read {}; is the name right?", path)};
  json document = json::parse(file, nullptr, false);
  const auto refuse = [&](const char* what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} {}; give what `orrery-sim run --json` printed", path, what)};
  };
  if (document.is_discarded() || !document.is_object()) return refuse("is no JSON document");
  if (!document.contains("schema") || document["schema"] != 1 || !document.contains("schemes") ||
      !document["schemes"].is_array())
    return refuse("is no result of a simulation");
  return document;
}

}  // namespace orrery::sim
