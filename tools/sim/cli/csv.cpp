#include "tools/sim/cli/csv.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>

namespace orrery::sim {
namespace {

double microseconds(Time time) {
  return static_cast<double>(time) / static_cast<double>(kPerUs);
}

struct FlowFigures {
  uint64_t bytes = 0, messages = 0, delivered = 0;
  Time first = kNever, last = 0;
};

}  // namespace

Result<CsvFiles> CsvFiles::create(const std::string& prefix) {
  CsvFiles files;
  files.prefix_ = prefix;
  files.flows_.open(prefix + ".flows.csv", std::ios::trunc);
  files.links_.open(prefix + ".links.csv", std::ios::trunc);
  files.flows_ << "scheme,seed,flow,job,src,dst,bytes,messages,delivered,first_release_us,last_delivery_us\n";
  files.links_ << "scheme,seed,port,to,rate_bps,bytes,utilisation,max_queued_bytes,drops,marks,paused_us\n";
  if (!files.flows_ || !files.links_)
    return Error{
        ErrorCode::kSystem,
        fmt::format("cannot write {0}.flows.csv and {0}.links.csv; is the folder there and writable?", prefix)};
  return files;
}

void CsvFiles::add(const fabric::Graph& graph, const Traffic& traffic, const Observation& o) {
  const auto host = [&](uint32_t index) { return graph.node(graph.nics()[index].host).name; };
  // Queue pairs follow each other flow by flow: lower().
  std::vector<uint32_t> flow_of;
  for (uint32_t flow = 0; flow < o.routed.flows.size(); ++flow)
    flow_of.insert(flow_of.end(), o.routed.flows[flow].qps.size(), flow);
  std::vector<FlowFigures> figures(traffic.flows.size());
  for (size_t i = 0; i < o.program.messages.size(); ++i) {
    FlowFigures& flow = figures[flow_of[o.program.messages[i].qp]];
    flow.bytes += o.program.messages[i].bytes;
    ++flow.messages;
    flow.first = std::min(flow.first, o.result.released_at[i]);
    if (o.result.delivered_at[i] == kNever) continue;
    ++flow.delivered;
    flow.last = std::max(flow.last, o.result.delivered_at[i]);
  }
  const std::string run = fmt::format("{},{}", name_of(o.run.scheme), o.run.seed);
  for (size_t i = 0; i < figures.size(); ++i) {
    const Flow& flow = traffic.flows[i];
    fmt::print(flows_, "{},{},{},{},{},{},{},{},{:.3f},{:.3f}\n", run, i, traffic.jobs[flow.job], host(flow.src),
               host(flow.dst), figures[i].bytes, figures[i].messages, figures[i].delivered,
               figures[i].first == kNever ? 0.0 : microseconds(figures[i].first), microseconds(figures[i].last));
  }
  for (fabric::LinkId id = 0; id < o.result.links.size(); ++id) {
    const LinkTotals& link = o.result.links[id];
    const double capacity = static_cast<double>(graph.link(id).rate_bps) / 8e12 * static_cast<double>(o.result.end);
    fmt::print(links_, "{},{},{},{},{},{:.4f},{},{},{},{:.3f}\n", run, graph.link_name(id),
               graph.node(graph.link(id).to).name, graph.link(id).rate_bps, link.sent_bytes,
               capacity > 0 ? static_cast<double>(link.sent_bytes) / capacity : 0.0, link.max_queued_bytes, link.drops,
               link.marks, microseconds(link.paused_time));
  }
}

Status CsvFiles::close() {
  flows_.close();
  links_.close();
  if (flows_ && links_) return {};
  return Error{ErrorCode::kSystem, fmt::format("cannot write {}.*.csv to its end; is the disk full?", prefix_)};
}

}  // namespace orrery::sim
