#include "tools/sim/cli/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace orrery::sim {
namespace {

constexpr const char* kFlowColumns =
    "scheme,seed,flow,job,src,dst,queue_pairs,paths,path,release_offset_us,pace_bps,bytes,messages,delivered,"
    "retransmits,path_changes,first_release_us,last_delivery_us";
constexpr const char* kLinkColumns =
    "scheme,seed,port,to,rate_bps,bytes,utilisation,max_queued_bytes,drops,marks,pauses,paused_us";

std::string microseconds(Time time) {
  return fmt::format("{:.3f}", static_cast<double>(time) / static_cast<double>(kPerUs));
}

std::string run_name(Scheme scheme, uint64_t seed) {
  return fmt::format("{},{}", name_of(scheme), seed);
}

struct FlowFigures {
  uint64_t bytes = 0, messages = 0, delivered = 0, retransmits = 0, path_changes = 0;
  Time first = kNever, last = kNever;
};

std::vector<FlowFigures> figures_of(const Observation& o) {
  // Queue pairs follow each other flow by flow: lower().
  std::vector<uint32_t> flow_of;
  for (uint32_t flow = 0; flow < o.routed.flows.size(); ++flow)
    flow_of.insert(flow_of.end(), o.routed.flows[flow].qps.size(), flow);
  std::vector<FlowFigures> figures(o.routed.flows.size());
  for (size_t i = 0; i < o.program.messages.size(); ++i) {
    FlowFigures& flow = figures[flow_of[o.program.messages[i].qp]];
    flow.bytes += o.program.messages[i].bytes;
    ++flow.messages;
    flow.first = std::min(flow.first, o.result.released_at[i]);
    const Time delivered = o.result.delivered_at[i];
    if (delivered == kNever) continue;
    ++flow.delivered;
    flow.last = flow.last == kNever ? delivered : std::max(flow.last, delivered);
  }
  for (size_t qp = 0; qp < o.result.qps.size(); ++qp) {
    figures[flow_of[qp]].retransmits += o.result.qps[qp].retransmitted;
    figures[flow_of[qp]].path_changes += o.result.qps[qp].path_changes;
  }
  return figures;
}

struct FlowPaths {
  size_t count = 0;
  std::string begins_on;  // the first path of every queue pair, equal ones once
};

FlowPaths paths_of(const fabric::Graph& graph, const FlowRoute& route) {
  FlowPaths result;
  std::set<fabric::Path> all, first;
  for (const QpRoute& qp : route.qps) {
    all.insert(qp.paths.begin(), qp.policy == PathPolicy::kStatic ? qp.paths.begin() + 1 : qp.paths.end());
    if (!first.insert(qp.paths[0]).second) continue;
    if (!result.begins_on.empty()) result.begins_on += " | ";
    result.begins_on += fmt::format("{}", fmt::join(graph.path_names(qp.paths[0]), " "));
  }
  result.count = all.size();
  return result;
}

std::string flow_lines(const fabric::Graph& graph, const Traffic& traffic, const Observation& o) {
  const auto host = [&](uint32_t index) { return csv_field(graph.node(graph.nics()[index].host).name); };
  const auto when = [](Time time) { return time == kNever ? "" : microseconds(time); };
  const std::string run = run_name(o.run.scheme, o.run.seed);
  const std::vector<FlowFigures> figures = figures_of(o);
  fmt::memory_buffer lines;
  for (size_t i = 0; i < figures.size(); ++i) {
    const Flow& flow = traffic.flows[i];
    const FlowRoute& route = o.routed.flows[i];
    const FlowPaths paths = paths_of(graph, route);
    fmt::format_to(std::back_inserter(lines), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", run, i,
                   csv_field(traffic.jobs[flow.job]), host(flow.src), host(flow.dst), route.qps.size(), paths.count,
                   csv_field(paths.begins_on), microseconds(route.release_offset), route.pace_bps, figures[i].bytes,
                   figures[i].messages, figures[i].delivered, figures[i].retransmits, figures[i].path_changes,
                   when(figures[i].first), when(figures[i].last));
  }
  return fmt::to_string(lines);
}

std::string link_lines(const fabric::Graph& graph, const Observation& o) {
  const std::string run = run_name(o.run.scheme, o.run.seed);
  fmt::memory_buffer lines;
  for (fabric::LinkId id = 0; id < o.result.links.size(); ++id) {
    const LinkTotals& link = o.result.links[id];
    const double capacity = static_cast<double>(graph.link(id).rate_bps) / 8e12 * static_cast<double>(o.result.end);
    fmt::format_to(std::back_inserter(lines), "{},{},{},{},{},{:.4f},{},{},{},{},{}\n", run,
                   csv_field(graph.link_name(id)), csv_field(graph.node(graph.link(id).to).name),
                   graph.link(id).rate_bps, link.sent_bytes,
                   capacity > 0 ? static_cast<double>(link.sent_bytes) / capacity : 0.0, link.max_queued_bytes,
                   link.drops, link.marks, link.pauses, microseconds(link.paused_time));
  }
  return fmt::to_string(lines);
}

std::string both(const std::string& flows, const std::string& links) {
  return flows + "-" + links;
}

}  // namespace

Result<CsvFiles> CsvFiles::create(const std::string& prefix, const std::map<RunKey, std::string>& digests) {
  CsvFiles files;
  files.flows_ = CsvTable(prefix + ".flows.csv", kFlowColumns);
  files.links_ = CsvTable(prefix + ".links.csv", kLinkColumns);
  std::vector<CsvBlock> flows, links;
  if (!digests.empty()) {
    std::map<std::string, RunKey> runs;
    for (const auto& [run, digest] : digests) runs[run_name(run.first, run.second)] = run;
    std::map<std::string, CsvBlock> others;
    for (CsvBlock& block : files.links_.blocks()) others[block.run] = std::move(block);
    for (CsvBlock& block : files.flows_.blocks()) {
      const auto run = runs.find(block.run);
      const auto other = others.find(block.run);
      if (run == runs.end() || other == others.end()) continue;
      if (digests.at(run->second) != both(block.digest, other->second.digest)) continue;
      if (!files.kept_.insert(run->second).second) continue;
      flows.push_back(std::move(block));
      links.push_back(other->second);
    }
  }
  ORRERY_TRY(files.flows_.open(flows));
  ORRERY_TRY(files.links_.open(links));
  return files;
}

std::string CsvFiles::add(const fabric::Graph& graph, const Traffic& traffic, const Observation& observation) {
  const std::string flows = flows_.add(flow_lines(graph, traffic, observation));
  return both(flows, links_.add(link_lines(graph, observation)));
}

Status CsvFiles::close() {
  ORRERY_TRY(flows_.close());
  return links_.close();
}

}  // namespace orrery::sim
