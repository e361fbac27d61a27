#include "tools/sim/cli/document.h"

#include "tools/sim/cli/history.h"
#include "tools/sim/cli/run_record.h"
#include "tools/sim/workload/input.h"

#include <fmt/format.h>

namespace orrery::sim {
namespace {

using nlohmann::json;

constexpr size_t kMostNamedNics = 4096;

json switches_of(const fabric::Graph& graph) {
  json switches = json::array();
  std::map<fabric::NodeId, size_t> index;
  for (fabric::NodeId id = 0; id < graph.nodes().size(); ++id) {
    const fabric::Node& node = graph.node(id);
    if (node.kind != fabric::NodeKind::kSwitch) continue;
    index[id] = switches.size();
    switches.push_back({{"name", node.name}, {"tier", node.tier}, {"hosts", 0}});
  }
  const bool named = graph.nics().size() <= kMostNamedNics;
  for (const uint32_t nic : nics_by_switch(graph)) {
    json& at = switches[index[graph.link(graph.nics()[nic].uplink).to]];
    at["hosts"] = at["hosts"].get<size_t>() + 1;
    if (named) at["nics"].push_back(graph.node(graph.nics()[nic].host).name + ":" + graph.nics()[nic].name);
  }
  return switches;
}

json fabric_of(const fabric::Graph& graph) {
  json links = json::array();
  for (const fabric::LinkId link : core_links(graph))
    links.push_back({{"port", graph.link_name(link)},
                     {"from", graph.node(graph.link(link).from).name},
                     {"to", graph.node(graph.link(link).to).name},
                     {"rate_bps", graph.link(link).rate_bps}});
  const uint64_t nic_rate = graph.nics().empty() ? 0 : graph.link(graph.nics()[0].uplink).rate_bps;
  json switches = switches_of(graph);
  return {{"switches", switches.size()},
          {"hosts", graph.nics().size()},
          {"nic_rate_bps", nic_rate},
          {"switch_list", std::move(switches)},
          {"core_links", std::move(links)}};
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

json scheme_of(const fabric::Graph& graph, const StudyResult& result, const DocumentParts& parts, const Summary& s) {
  json runs = json::array();
  for (const Run& run : result.runs) {
    if (run.scheme != s.scheme) continue;
    json& record = runs.emplace_back(record_of(graph, run));
    const auto digest = parts.csv_digests.find({run.scheme, run.seed});
    if (digest != parts.csv_digests.end()) record["csv_digest"] = digest->second;
  }
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

json document_of(const RunRequest& request, const fabric::Graph& graph, const StudyResult& result,
                 const DocumentParts& parts) {
  json schemes = json::array();
  for (const Summary& summary : result.summaries) {
    json& scheme = schemes.emplace_back(scheme_of(graph, result, parts, summary));
    if (const auto history = parts.histories.find(summary.scheme); history != parts.histories.end())
      scheme["history"] = history->second;
  }
  return {{"schema", 1},
          {"title", request.title},
          {"fingerprint", parts.fingerprint},
          {"runs_done", result.done()},
          {"runs_total", result.total},
          {"jobs", parts.jobs},
          {"settings", settings_of(request.scenario)},
          {"fabric", fabric_of(graph)},
          {"ideal_ms", result.ideal_ms() > 0 ? json(result.ideal_ms()) : json()},
          {"ideal_job_times_ms", result.ideal ? json(result.ideal->job_times_ms) : json()},
          {"ideal_per_s", result.ideal ? json(result.ideal->iterations_per_s) : json()},
          {"ideal", result.ideal ? record_of(graph, *result.ideal) : json()},
          {"schemes", schemes}};
}

std::vector<JobMeans> job_means(const json& document) {
  std::vector<JobMeans> jobs;
  for (const json& name : document.value("jobs", json::array())) jobs.push_back({.name = name, .mean_ms = {}});
  const auto add = [&](const json& times_by_job, std::vector<std::pair<double, size_t>>& sums) {
    for (size_t job = 0; job < std::min(sums.size(), times_by_job.size()); ++job)
      for (const json& time : times_by_job[job]) {
        sums[job].first += time.get<double>();
        ++sums[job].second;
      }
  };
  const auto mean = [](const std::pair<double, size_t>& sum) {
    return sum.second > 0 ? sum.first / static_cast<double>(sum.second) : 0.0;
  };
  std::vector<std::pair<double, size_t>> ideal(jobs.size());
  if (document.contains("ideal_job_times_ms")) add(document["ideal_job_times_ms"], ideal);
  for (size_t job = 0; job < jobs.size(); ++job) jobs[job].ideal_ms = mean(ideal[job]);
  for (const json& scheme : document["schemes"]) {
    std::vector<std::pair<double, size_t>> sums(jobs.size());
    for (const json& run : scheme.value("per_seed", json::array())) add(run.value("job_times_ms", json::array()), sums);
    for (size_t job = 0; job < jobs.size(); ++job) jobs[job].mean_ms.push_back(mean(sums[job]));
  }
  return jobs;
}

std::string beside_ideal(double mean_ms, double ideal_ms) {
  if (mean_ms <= 0) return "-";
  return fmt::format("{:.3f}", ideal_ms > 0 ? mean_ms / ideal_ms : mean_ms);
}

Result<json> load_document(const std::string& path) {
  constexpr size_t kMost = 512u << 20;
  ORRERY_ASSIGN(const std::string text, read_file(path, kMost, "the result"));
  const auto refuse = [&](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: {}; give what `orrery-sim run --json` printed", path, what)};
  };
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& wrong) {
    return refuse(fmt::format("byte {}: no JSON {}", wrong.byte,
                              wrong.byte > text.size() ? "up to its end; was it cut off?" : "from here on"));
  } catch (const json::exception&) {
    return refuse("holds a number that none can be");
  }
  if (!document.is_object()) return refuse("is no JSON object");
  if (!document.contains("schema") || document["schema"] != 1 || !document.contains("schemes") ||
      !document["schemes"].is_array())
    return refuse("is no result of a simulation");
  for (size_t i = 0; i < document["schemes"].size(); ++i)
    if (const json& scheme = document["schemes"][i]; !scheme.is_object() || !scheme.value("scheme", json()).is_string())
      return refuse(fmt::format("schemes[{}] names no scheme", i));
  if (!document.value("title", json("")).is_string()) return refuse("title is no text");
  return document;
}

Status reading(const std::string& path, const std::function<void()>& read) {
  try {
    read();
  } catch (const json::exception& wrong) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} is damaged, or no result of a simulation ({}); give what `orrery-sim run --json` printed", path,
                    wrong.what())};
  }
  return {};
}

}  // namespace orrery::sim
