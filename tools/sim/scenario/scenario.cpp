#include "tools/sim/scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "common/base/nearest_name.h"
#include "controller/fabric/mistakes.h"

namespace orrery::sim {
namespace {

Error refuse(const Scenario& scenario, const std::string& what, ErrorCode code = ErrorCode::kInvalidArgument) {
  return Error{code, fmt::format("{}: {}", scenario.file, what)};
}

std::string beside(const Scenario& scenario, const std::string& file) {
  return (std::filesystem::path(scenario.file).parent_path() / file).string();
}

// Hands hosts out: named ones first, then in the order of the placement.
class Hosts {
 public:
  Hosts(const Scenario& scenario, const fabric::Graph& graph) : scenario_(scenario), graph_(graph) {}

  Status take_named() {
    taken_.assign(graph_.nics().size(), false);
    by_name();
    for (const ScenarioJob& job : scenario_.jobs) {
      std::vector<uint32_t>& hosts = named_.emplace_back();
      for (const std::string& name : job.host_names) {
        ORRERY_ASSIGN(const uint32_t host, find(name));
        if (std::find(hosts.begin(), hosts.end(), host) != hosts.end())
          return refuse(scenario_, fmt::format("job {}: host {} stands there twice; use ranks_per_host", job.job.name,
                                               fabric::quoted(name)));
        hosts.push_back(host);
        taken_[host] = true;
      }
    }
    const auto all = static_cast<uint32_t>(graph_.nics().size());
    ORRERY_ASSIGN(auto order, place(graph_, {all}, scenario_.placement, scenario_.placement_seed));
    order_ = std::move(order[0]);
    return {};
  }
  const std::vector<uint32_t>& named(size_t job) const { return named_[job]; }

  // `who` needs them, for messages.
  Result<std::vector<uint32_t>> take(uint32_t count, const std::string& who) {
    std::vector<uint32_t> hosts;
    for (; hosts.size() < count && next_ < order_.size(); ++next_)
      if (!taken_[order_[next_]]) hosts.push_back(order_[next_]);
    if (hosts.size() == count) return hosts;
    return refuse(scenario_,
                  fmt::format("{} needs {} hosts, and {} of the fabric's {} are left; take a larger fabric or fewer "
                              "hosts, or put more ranks on each (ranks_per_host)",
                              who, count, hosts.size(), order_.size()),
                  ErrorCode::kExhausted);
  }

 private:
  void by_name() {
    for (uint32_t i = 0; i < graph_.nics().size(); ++i) {
      const fabric::Nic& nic = graph_.nics()[i];
      const std::string& host = graph_.node(nic.host).name;
      nics_[host].push_back(i);
      nics_[host + ":" + nic.name].push_back(i);
    }
  }

  Result<uint32_t> find(const std::string& name) const {
    const auto found = nics_.find(name);
    if (found != nics_.end() && found->second.size() == 1) return found->second[0];
    if (found != nics_.end())
      return refuse(scenario_, fmt::format("host {} has {} NICs; name one, such as {}:{}", name, found->second.size(),
                                           name, graph_.nics()[found->second[0]].name));
    std::vector<std::string_view> names;
    for (const auto& [known, nics] : nics_) names.push_back(known);
    return refuse(scenario_, fmt::format("the fabric has no host {}{}", fabric::quoted(name),
                                         did_you_mean(std::string_view(name).substr(0, 64), names)));
  }

  const Scenario& scenario_;
  const fabric::Graph& graph_;
  std::map<std::string, std::vector<uint32_t>> nics_;  // by host, and by host:nic
  std::vector<bool> taken_;
  std::vector<std::vector<uint32_t>> named_;
  std::vector<uint32_t> order_;
  size_t next_ = 0;
};

Status take_down(const Scenario& scenario, fabric::Graph& graph, const std::string& name) {
  const auto cut = [&](fabric::LinkId link) {
    graph.set_link_up(link, false);
    graph.set_link_up(graph.link(link).reverse, false);
  };
  if (const auto node = graph.find_node(name)) {
    for (const fabric::LinkId link : graph.node(*node).egress) cut(link);
  } else if (const auto link = graph.find_link(name)) {
    cut(*link);
  } else {
    return refuse(scenario, fmt::format("topology.down: the fabric has no {}; write a node or NODE:PORT, such as "
                                        "spine1 or leaf1:p5",
                                        fabric::quoted(name)));
  }
  return {};
}

// Every cable of a switch.
Status add_switch_fault(const Scenario& scenario, const fabric::Graph& graph, const ScenarioFault& fault,
                        std::vector<Fault>& faults) {
  const auto node = graph.find_node(fault.node);
  if (!node || graph.node(*node).kind != fabric::NodeKind::kSwitch)
    return refuse(scenario, fmt::format("faults: the fabric has no switch {}; write its name, such as spine1",
                                        fabric::quoted(fault.node)));
  for (const fabric::LinkId link : graph.node(*node).egress) {
    faults.push_back({fault.at, link, fault.up});
    faults.push_back({fault.at, graph.link(link).reverse, fault.up});
  }
  return {};
}

Status add_fault(const Scenario& scenario, const fabric::Graph& graph, const ScenarioFault& fault,
                 std::vector<Fault>& faults) {
  if (!fault.node.empty()) return add_switch_fault(scenario, graph, fault, faults);
  const std::string& port = fault.pausing_nic.empty() ? fault.link : fault.pausing_nic;
  const auto link = graph.find_link(port);
  if (!link)
    return refuse(scenario, fmt::format("faults: the fabric has no port {}; write NODE:PORT, such as leaf1:p5",
                                        fabric::quoted(port)));
  if (fault.pausing_nic.empty()) {
    faults.push_back({fault.at, *link, fault.up});
    faults.push_back({fault.at, graph.link(*link).reverse, fault.up});
    return {};
  }
  if (scenario.engine == Engine::kFluid)
    return refuse(scenario, "faults: the fluid engine has no pauses; take the packet engine for pausing_nic");
  if (graph.node(graph.link(*link).from).kind != fabric::NodeKind::kHost)
    return refuse(scenario, fmt::format("faults: {} is no NIC; write HOST:NIC, such as h5:eth0", fabric::quoted(port)));
  faults.push_back({fault.at, graph.link(*link).reverse, fault.up, FaultKind::kPausingNic});
  return {};
}

}  // namespace

Result<fabric::Graph> graph_of(const Scenario& scenario) {
  fabric::Topology topology;
  if (scenario.leaf_spine) {
    auto generated = fabric::generate_leaf_spine(*scenario.leaf_spine);
    if (!generated) return refuse(scenario, "topology.leaf_spine: " + generated.error().message);
    topology = std::move(*generated);
  } else {
    const std::string path = beside(scenario, scenario.topology_file);
    auto loaded = fabric::load_topology(path);
    if (!loaded && path.ends_with(".csv"))
      return Error{loaded.error().code,
                   fmt::format("{}\nIf {} is a list of hosts, make a topology of it: orreryctl topology import {} -o "
                               "fabric.yaml",
                               loaded.error().message, path, path)};
    ORRERY_ASSIGN(topology, std::move(loaded));
  }
  fabric::Graph graph = fabric::Graph::build(topology);
  for (const std::string& name : scenario.down) ORRERY_TRY(take_down(scenario, graph, name));
  return graph;
}

Result<Workload> load_job(const Scenario& scenario, const ScenarioJob& job, uint64_t max_tasks) {
  ReadOptions options = job.workload->options;
  options.max_tasks = max_tasks;
  ORRERY_ASSIGN(Workload workload, load_workload(job.workload->format, beside(scenario, job.workload->file), options));
  const size_t given = job.host_names.empty() ? job.host_count : job.host_names.size();
  if (given != 0 && given != workload.hosts)
    return refuse(scenario,
                  fmt::format("job {}: {} needs {} hosts with {} ranks each, and hosts says {}; correct it or "
                              "ranks_per_host, or leave hosts out",
                              job.job.name, job.workload->file, workload.hosts, job.job.ranks_per_host, given));
  for (Job& part : workload.jobs) {
    part.name = workload.jobs.size() == 1 ? job.job.name : job.job.name + "/" + part.name;
    part.start = job.job.start;
  }
  return workload;
}

Result<PlacedJobs> placed_jobs(const Scenario& scenario, const fabric::Graph& graph, uint64_t max_tasks) {
  Hosts hosts(scenario, graph);
  ORRERY_TRY(hosts.take_named());
  PlacedJobs placed;
  for (size_t i = 0; i < scenario.jobs.size(); ++i) {
    const ScenarioJob& job = scenario.jobs[i];
    Workload workload{.hosts = job.host_count, .jobs = {job.job}, .fixed = {}};
    if (job.workload) {
      ORRERY_ASSIGN(workload, load_job(scenario, job, max_tasks));
    }
    std::vector<uint32_t> place = hosts.named(i);
    if (place.empty()) {
      ORRERY_ASSIGN(place, hosts.take(workload.hosts, "job " + job.job.name));
    }
    for (Job& part : workload.jobs) {
      if (!job.workload)
        part.hosts = place;
      else
        for (uint32_t& host : part.hosts) host = place[host];
      placed.jobs.push_back(std::move(part));
    }
  }
  if (!scenario.workload) return placed;
  ReadOptions options = scenario.workload->options;
  options.max_tasks = max_tasks;
  ORRERY_ASSIGN(placed.workload,
                load_workload(scenario.workload->format, beside(scenario, scenario.workload->file), options));
  ORRERY_ASSIGN(placed.workload_hosts, hosts.take(placed.workload.hosts, scenario.workload->file));
  return placed;
}

Result<Traffic> traffic_of(const Scenario& scenario, const PlacedJobs& placed) {
  ORRERY_ASSIGN(Traffic traffic, traffic_of(placed.workload, placed.workload_hosts));
  for (const Job& job : placed.jobs)
    if (const auto added = add_job(traffic, job); !added) return refuse(scenario, added.error().message);
  return traffic;
}

Result<PacketConfig> packet_config(const Scenario& scenario, const fabric::Graph& graph, Scheme scheme, uint64_t seed) {
  PacketConfig config = scenario.packet;
  config.seed = seed;
  if (reorders(scheme)) {
    constexpr uint32_t kTolerated = 1'000;  // packets: what a NIC for sprayed traffic keeps account of
    config.transport.recovery = Recovery::kSelectiveRepeat;
    if (config.transport.reorder_packets == 0) config.transport.reorder_packets = kTolerated;
  }
  for (const ScenarioFault& fault : scenario.faults) ORRERY_TRY(add_fault(scenario, graph, fault, config.faults));
  std::stable_sort(config.faults.begin(), config.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return config;
}

std::vector<int64_t> clock_errors(const Scenario& scenario, const fabric::Graph& graph, uint64_t seed) {
  std::vector<int64_t> errors;
  if (scenario.clock_error == 0) return errors;
  std::mt19937_64 random(seed);
  const auto most = static_cast<int64_t>(scenario.clock_error);
  for (size_t i = 0; i < graph.nics().size(); ++i)
    errors.push_back(static_cast<int64_t>(random() % (2 * scenario.clock_error + 1)) - most);
  return errors;
}

}  // namespace orrery::sim
