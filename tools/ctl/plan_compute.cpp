// orreryctl plan compute: the controller's planner on a topology file, with no controller. What-if for rings and failed
// links.
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <sstream>

#include "common/base/nearest_name.h"
#include "controller/fabric/graph.h"
#include "controller/fabric/topology.h"
#include "controller/planner/planner.h"
#include "tools/ctl/command.h"
#include "tools/ctl/render.h"
#include "tools/ctl/table.h"

namespace orrery::ctl {
namespace {

using fabric::Graph;
using planner::FlowDemand;

struct ComputeOptions {
  std::string topology;
  std::vector<std::string> rings;
  uint64_t bytes = 8u << 20;
  std::vector<std::string> down;
  bool json = false;
};

struct EcmpLoad {  // time to drain the busiest link, over the draws
  double mean_ns = 0;
  uint64_t worst_ns = 0;
};

constexpr int kEcmpDraws = 100;

Error unknown(std::string_view what, std::string_view name, std::vector<std::string> valid) {
  const std::vector<std::string_view> views(valid.begin(), valid.end());
  return {ErrorCode::kInvalidArgument,
          fmt::format("the topology has no {} '{}'{}", what, name, did_you_mean(name, views))};
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

Result<const fabric::Nic*> first_nic(const Graph& graph, const std::string& host) {
  std::vector<std::string> hosts;
  for (const fabric::Nic& nic : graph.nics()) {
    if (graph.node(nic.host).name == host) return &nic;
    hosts.push_back(graph.node(nic.host).name);
  }
  return unknown("host", host, std::move(hosts));
}

// A ring all-reduce of S bytes over n ranks sends 2(n-1)/n of S from every rank to the next.
Status add_ring(const Graph& graph, const std::string& ring, uint64_t bytes, uint64_t comm_id,
                std::vector<FlowDemand>& flows) {
  const std::vector<std::string> hosts = split(ring);
  if (hosts.size() < 2)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--ring {}: a ring has two hosts or more, as h1,h5,h9", ring)};
  const auto per_flow = static_cast<uint64_t>(2.0 * static_cast<double>(hosts.size() - 1) /
                                              static_cast<double>(hosts.size()) * static_cast<double>(bytes));
  std::map<std::pair<IpAddress, IpAddress>, size_t> known;
  for (size_t i = 0; i < hosts.size(); ++i) {
    ORRERY_ASSIGN(const fabric::Nic* src, first_nic(graph, hosts[i]));
    ORRERY_ASSIGN(const fabric::Nic* dst, first_nic(graph, hosts[(i + 1) % hosts.size()]));
    if (src == dst) continue;  // two ranks of one host
    const auto [entry, fresh] = known.emplace(std::pair(src->address, dst->address), flows.size());
    if (fresh)
      flows.push_back({.flow_id = flows.size() + 1, .comm_id = comm_id, .src = src->address, .dst = dst->address});
    flows[entry->second].bytes += per_flow;
  }
  return {};
}

Status take_down(Graph& graph, const std::vector<std::string>& ports) {
  for (const std::string& port : ports) {
    const auto link = graph.find_link(port);
    if (!link) {
      std::vector<std::string> names;
      for (fabric::LinkId id = 0; id < graph.links().size(); ++id) names.push_back(graph.link_name(id));
      return unknown("cabled port", port, std::move(names));
    }
    graph.set_link_up(*link, false);
    graph.set_link_up(graph.link(*link).reverse, false);
  }
  return {};
}

// Where ECMP would put the same flows, one connection each, for source ports drawn with a fixed seed.
EcmpLoad ecmp_load(const Graph& graph, const std::vector<FlowDemand>& flows) {
  std::mt19937 random(1);
  EcmpLoad load;
  for (int draw = 0; draw < kEcmpDraws; ++draw) {
    std::vector<double> bytes(graph.links().size());
    for (const FlowDemand& flow : flows) {
      const auto port = static_cast<uint16_t>(32768 + random() % 28232);
      const auto path = graph.ecmp_path({flow.src, flow.dst, port, 5000, IPPROTO_TCP});
      if (!path) continue;
      for (fabric::LinkId id : *path) bytes[id] += static_cast<double>(flow.bytes);
    }
    double busiest_ns = 0;
    for (fabric::LinkId id = 0; id < bytes.size(); ++id)
      busiest_ns = std::max(busiest_ns, bytes[id] * 8e9 / static_cast<double>(graph.link(id).rate_bps));
    load.mean_ns += busiest_ns;
    load.worst_ns = std::max(load.worst_ns, static_cast<uint64_t>(busiest_ns));
  }
  load.mean_ns /= kEcmpDraws;
  return load;
}

std::vector<msg::PlannedFlow> planned_flows(const Graph& graph, const std::vector<FlowDemand>& demands,
                                            const planner::Plan& plan) {
  std::vector<msg::PlannedFlow> flows;
  for (size_t i = 0; i < demands.size(); ++i) {
    const planner::FlowAssignment& assignment = plan.flows[i];
    msg::PlannedFlow flow;
    flow.flow_id = demands[i].flow_id;
    flow.comm_id = demands[i].comm_id;
    flow.src_host = graph.node(graph.find_nic(demands[i].src)->host).name;
    flow.dst_host = graph.node(graph.find_nic(demands[i].dst)->host).name;
    flow.tuple = {demands[i].src, demands[i].dst, 0, 0, IPPROTO_TCP};
    flow.path = graph.path_names(assignment.path);
    if (!assignment.backups.empty()) flow.backup = graph.path_names(assignment.backups[0]);
    flow.bytes_per_round = demands[i].bytes;
    flow.release_offset_ns = assignment.release_offset_ns;
    flow.pace_bps = assignment.pace_bps;
    flows.push_back(std::move(flow));
  }
  return flows;
}

const char* method_name(planner::Method method) {
  switch (method) {
    case planner::Method::kEdgeColouring:
      return "edge-colouring";
    case planner::Method::kMinMax:
      return "min-max";
    default:
      return "none";
  }
}

Result<std::string> compute(const ComputeOptions& options, bool colour) {
  ORRERY_ASSIGN(const fabric::Topology topology, fabric::load_topology(options.topology));
  Graph graph = Graph::build(topology);
  ORRERY_TRY(take_down(graph, options.down));
  planner::Snapshot snapshot;
  snapshot.fabric = &graph;
  for (size_t i = 0; i < options.rings.size(); ++i)
    ORRERY_TRY(add_ring(graph, options.rings[i], options.bytes, i + 1, snapshot.flows));
  ORRERY_ASSIGN(const planner::Plan plan, planner::plan(snapshot));
  const EcmpLoad ecmp = ecmp_load(graph, snapshot.flows);
  const auto flows = planned_flows(graph, snapshot.flows, plan);
  const msg::PlanBounds bounds{plan.max_drain_ns, plan.lower_bound_ns, plan.fluid_bound_ns};
  const auto time = [](double ns) { return human_duration(static_cast<int64_t>(ns)); };
  if (options.json) {
    Json json;
    json["topology"] = topology.name;
    json["method"] = method_name(plan.method);
    add_bounds(json, bounds);
    json["optimal"] = plan.optimal();
    json["ecmp_draws"] = kEcmpDraws;
    json["ecmp_mean_drain_ns"] = static_cast<uint64_t>(ecmp.mean_ns);
    json["ecmp_worst_drain_ns"] = ecmp.worst_ns;
    json["flows"] = json_of(flows);
    return json_text(json);
  }
  return fmt::format("{}: {} flows by {}\nBusiest link: {}\nUnder ECMP: {} on average, at worst {} ({} draws)\n\n",
                     topology.name, flows.size(), method_name(plan.method), text_of(bounds), time(ecmp.mean_ns),
                     time(static_cast<double>(ecmp.worst_ns)), kEcmpDraws) +
         text_of(flows, {colour, 0});
}

}  // namespace

void add_plan_compute(Session& session, CLI::App& plan) {
  CLI::App* app = plan.add_subcommand(
      "compute", "Plan rings on a topology file, and say what ECMP would do (no controller needed)");
  auto options = std::make_shared<ComputeOptions>();
  app->add_option("TOPOLOGY", options->topology, "Topology file")->required();
  app->add_option("--ring", options->rings,
                  "Hosts of a ring all-reduce in rank order, as h1,h5,h9; may be given several times")
      ->allow_extra_args(false)
      ->required();
  app->add_option("--bytes", options->bytes, "Size of each all-reduce; a flow carries 2(n-1)/n of it")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50))
      ->capture_default_str();
  app->add_option("--down", options->down,
                  "A failed cable, named by one of its ports, as leaf1:p5; may be given several times")
      ->allow_extra_args(false);
  app->add_flag("--json", options->json, "Print JSON for programs");
  app->callback([&session, options] {
    session.action = [&session, options] {
      const auto text = compute(*options, session.console.colour);
      if (!text) return report(session.console, text.error());
      session.console.out << *text;
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace orrery::ctl
