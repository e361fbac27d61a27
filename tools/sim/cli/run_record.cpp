#include "tools/sim/cli/run_record.h"

#include <type_traits>

namespace orrery::sim {
namespace {

using nlohmann::json;

// One list of keys for both directions.
template <typename Run, typename Visit>
void each_number(Run& run, Visit visit) {
  visit("seed", run.seed);
  visit("unfinished", run.unfinished);
  visit("iterations_per_s", run.iterations_per_s);
  visit("end_ps", run.end);
  visit("max_utilisation", run.max_utilisation);
  visit("max_core_utilisation", run.max_core_utilisation);
  visit("core_spread", run.core_spread);
  visit("max_queue_bytes", run.max_queue_bytes);
  visit("planned_drain_ps", run.planned_drain);
  visit("lower_bound_ps", run.lower_bound);
  visit("cpu_s", run.cpu_s);
  auto& totals = run.totals;
  visit("events", totals.events);
  visit("hops", totals.hops);
  visit("data_hops", totals.data_hops);
  visit("drops", totals.drops);
  visit("marks", totals.marks);
  visit("pauses", totals.pauses);
  visit("cnps", totals.cnps);
  visit("retransmits", totals.retransmitted);
  visit("path_changes", totals.path_changes);
  visit("delivered_messages", totals.delivered_messages);
  visit("delivered_bytes", totals.delivered_bytes);
}

bool take_times(const json& list, std::vector<double>& times) {
  for (const json& time : list) {
    if (!time.is_number()) return false;
    times.push_back(time.get<double>());
  }
  return list.is_array();
}

}  // namespace

json record_of(const fabric::Graph& graph, const Run& run) {
  json record;
  each_number(run, [&](const char* key, const auto& value) { record[key] = value; });
  record["times_ms"] = run.times_ms;
  record["job_times_ms"] = run.job_times_ms;
  record["end_ms"] = static_cast<double>(run.end) / static_cast<double>(kPerMs);
  json bytes = json::array();
  if (!run.link_bytes.empty())
    for (const fabric::LinkId link : core_links(graph)) bytes.push_back(run.link_bytes[link]);
  record["link_bytes"] = bytes;
  return record;
}

std::optional<Run> run_of(const fabric::Graph& graph, const json& record) {
  Run run;
  bool whole = record.is_object();
  const auto take = [&](const char* key, auto& value) {
    const auto found = whole ? record.find(key) : record.end();
    using Value = std::decay_t<decltype(value)>;
    whole = whole && found != record.end() &&
            (std::is_integral_v<Value> ? found->is_number_unsigned() : found->is_number());
    if (whole) value = found->template get<Value>();
  };
  each_number(run, take);
  for (const char* key : {"times_ms", "job_times_ms", "link_bytes"})
    if (!whole || !record.contains(key) || !record[key].is_array()) return std::nullopt;
  if (!take_times(record["times_ms"], run.times_ms)) return std::nullopt;
  for (const json& job : record["job_times_ms"])
    if (!take_times(job, run.job_times_ms.emplace_back())) return std::nullopt;
  const std::vector<fabric::LinkId> core = core_links(graph);
  const json& bytes = record["link_bytes"];
  if (bytes.size() != core.size()) return bytes.empty() ? std::optional(run) : std::nullopt;
  run.link_bytes.resize(graph.links().size());
  for (size_t i = 0; i < core.size(); ++i) {
    if (!bytes[i].is_number_unsigned()) return std::nullopt;
    run.link_bytes[core[i]] = bytes[i].get<uint64_t>();
  }
  return run;
}

}  // namespace orrery::sim
