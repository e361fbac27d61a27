#include "tools/sim/runner/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery::sim {
namespace {

double milliseconds(Time time) {
  return static_cast<double>(time) / static_cast<double>(kPerMs);
}

void add_times(const Traffic& traffic, const RunResult& result, Run& run) {
  if (traffic.rounds.empty()) {
    const auto delivered = static_cast<size_t>(
        std::count_if(result.delivered_at.begin(), result.delivered_at.end(), [](Time t) { return t != kNever; }));
    run.unfinished = result.delivered_at.size() - delivered;
    if (run.unfinished == 0) run.times_ms.push_back(milliseconds(result.end));
    return;
  }
  run.job_times_ms.resize(traffic.jobs.size());
  for (const RoundTimes& round : round_times(traffic, result.step_done_at)) {
    if (round.end == kNever || round.begin == kNever) {
      ++run.unfinished;
      continue;
    }
    run.times_ms.push_back(milliseconds(round.end - round.begin));
    run.job_times_ms[round.job].push_back(run.times_ms.back());
  }
}

void add_links(const fabric::Graph& graph, const RunResult& result, Run& run) {
  if (result.end == 0) return;
  const double seconds = static_cast<double>(result.end) / 1e12;
  const auto use = [&](fabric::LinkId link) {
    return 8 * static_cast<double>(result.links[link].sent_bytes) /
           (static_cast<double>(graph.link(link).rate_bps) * seconds);
  };
  for (fabric::LinkId link = 0; link < result.links.size(); ++link) {
    run.link_bytes.push_back(result.links[link].sent_bytes);
    run.max_utilisation = std::max(run.max_utilisation, use(link));
    if (graph.node(graph.link(link).from).kind == fabric::NodeKind::kSwitch)
      run.max_queue_bytes = std::max(run.max_queue_bytes, result.links[link].max_queued_bytes);
  }
  const std::vector<fabric::LinkId> core = core_links(graph);
  double sum = 0;
  for (const fabric::LinkId link : core) {
    run.max_core_utilisation = std::max(run.max_core_utilisation, use(link));
    sum += use(link);
  }
  if (sum > 0) run.core_spread = run.max_core_utilisation * static_cast<double>(core.size()) / sum;
}

}  // namespace

std::vector<fabric::LinkId> core_links(const fabric::Graph& graph) {
  std::vector<fabric::LinkId> links;
  for (fabric::LinkId id = 0; id < graph.links().size(); ++id)
    if (graph.node(graph.link(id).from).kind == fabric::NodeKind::kSwitch &&
        graph.node(graph.link(id).to).kind == fabric::NodeKind::kSwitch)
      links.push_back(id);
  return links;
}

Run summarise(const fabric::Graph& graph, const Traffic& traffic, const RunResult& result) {
  Run run;
  run.totals = result.totals;
  run.end = result.end;
  add_times(traffic, result, run);
  add_links(graph, result, run);
  const double jobs = static_cast<double>(std::max<size_t>(1, traffic.jobs.size()));
  if (result.end > 0)
    run.iterations_per_s = static_cast<double>(run.times_ms.size()) / jobs / (static_cast<double>(result.end) / 1e12);
  return run;
}

Summary summarise(const std::vector<const Run*>& runs, double ideal_ms) {
  Summary summary;
  summary.scheme = runs.front()->scheme;
  std::vector<double> times;
  for (const Run* run : runs) {
    times.insert(times.end(), run->times_ms.begin(), run->times_ms.end());
    summary.unfinished += run->unfinished;
    summary.totals += run->totals;
    summary.iterations_per_s += run->iterations_per_s / static_cast<double>(runs.size());
    summary.core_spread += run->core_spread / static_cast<double>(runs.size());
    summary.max_utilisation = std::max(summary.max_utilisation, run->max_utilisation);
    summary.max_core_utilisation = std::max(summary.max_core_utilisation, run->max_core_utilisation);
    summary.max_queue_bytes = std::max(summary.max_queue_bytes, run->max_queue_bytes);
    if (run->lower_bound == 0) continue;
    summary.planned = true;
    summary.plan_gap =
        std::max(summary.plan_gap, static_cast<double>(run->planned_drain) / static_cast<double>(run->lower_bound) - 1);
  }
  summary.iterations = times.size();
  if (times.empty()) return summary;
  summary.mean_ms = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  summary.worst_ms = *std::max_element(times.begin(), times.end());
  summary.p50_ms = percentile(times, 0.5);
  summary.p99_ms = percentile(times, 0.99);
  if (ideal_ms > 0) summary.slowdown = summary.mean_ms / ideal_ms;
  return summary;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const size_t index = std::clamp<size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

}  // namespace orrery::sim
