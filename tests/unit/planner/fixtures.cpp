#include "tests/unit/planner/fixtures.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "controller/planner/problem.h"

namespace orrery::planner::testing {

using fabric::Graph;
using fabric::LinkId;

Graph clos(const fabric::LeafSpine& shape) {
  const auto topology = fabric::generate_leaf_spine(shape);
  REQUIRE(topology);
  return Graph::build(*topology);
}

Graph fat_tree(uint32_t ports) {
  constexpr uint64_t kRate = 100'000'000, kQueue = 262'144;
  fabric::Topology topology{.name = "fat-tree"};
  const uint32_t half = ports / 2;
  std::map<std::string, uint32_t> used;  // ports by switch
  const auto add_switch = [&](const std::string& name, uint32_t tier) {
    fabric::SwitchSpec spec{
        .name = name, .tier = tier, .hash_seed = static_cast<uint32_t>(topology.switches.size()) + 1};
    for (uint32_t port = 1; port <= ports; ++port) spec.ports.push_back({fmt::format("p{}", port), kRate, kQueue, {}});
    topology.switches.push_back(std::move(spec));
  };
  const auto port_of = [&](const std::string& name) { return fabric::PortRef{name, fmt::format("p{}", ++used[name])}; };
  for (uint32_t core = 0; core < half * half; ++core) add_switch(fmt::format("core{}", core), 3);
  for (uint32_t pod = 0; pod < ports; ++pod) {
    for (uint32_t at = 0; at < half; ++at) {
      add_switch(fmt::format("agg{}-{}", pod, at), 2);
      add_switch(fmt::format("edge{}-{}", pod, at), 1);
    }
    for (uint32_t edge = 0; edge < half; ++edge) {
      const std::string leaf = fmt::format("edge{}-{}", pod, edge);
      for (uint32_t host = 0; host < half; ++host) {
        const uint32_t number = (pod * half + edge) * half + host;
        const std::string name = fmt::format("h{}", number);
        topology.hosts.push_back({name, {{"eth0", kRate, kQueue, IpAddress::from_v4(0x0a000001u + number)}}});
        topology.links.push_back({{name, "eth0"}, port_of(leaf)});
      }
      for (uint32_t agg = 0; agg < half; ++agg)
        topology.links.push_back({port_of(leaf), port_of(fmt::format("agg{}-{}", pod, agg))});
    }
    for (uint32_t core = 0; core < half * half; ++core)
      topology.links.push_back(
          {port_of(fmt::format("agg{}-{}", pod, core / half)), port_of(fmt::format("core{}", core))});
  }
  return Graph::build(topology);
}

IpAddress address(const Graph& fabric, uint32_t index) {
  return fabric.nics()[index].address;
}

FlowDemand demand(const Graph& fabric, uint64_t id, uint32_t src, uint32_t dst, uint64_t bytes) {
  return {.flow_id = id, .comm_id = 1, .src = address(fabric, src), .dst = address(fabric, dst), .bytes = bytes};
}

std::vector<FlowDemand> ring(const Graph& fabric, const std::vector<uint32_t>& order, uint64_t bytes) {
  std::vector<FlowDemand> flows;
  for (size_t at = 0; at < order.size(); ++at)
    flows.push_back(demand(fabric, at + 1, order[at], order[(at + 1) % order.size()], bytes));
  return flows;
}

std::vector<uint32_t> interleaved(uint32_t hosts, uint32_t leaves) {
  std::vector<uint32_t> order;
  const uint32_t per_leaf = hosts / leaves;
  for (uint32_t at = 0; at < hosts; ++at) order.push_back(at % leaves * per_leaf + at / leaves);
  return order;
}

std::vector<uint32_t> Random::permutation(uint32_t size) {
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t at = size; at > 1; --at) std::swap(order[at - 1], order[below(at)]);
  return order;
}

LinkId link(const Graph& fabric, const std::string& name) {
  const auto found = fabric.find_link(name);
  REQUIRE(found);
  return *found;
}

void set_cable(Graph& fabric, const std::string& a, const std::string& b, bool up) {
  bool found = false;
  for (LinkId id = 0; id < fabric.links().size(); ++id) {
    if (fabric.node(fabric.link(id).from).name != a || fabric.node(fabric.link(id).to).name != b) continue;
    fabric.set_link_up(id, up);
    fabric.set_link_up(fabric.link(id).reverse, up);
    found = true;
  }
  REQUIRE(found);
}

std::vector<uint32_t> flows_per_link(const Graph& fabric, const Plan& plan) {
  std::vector<uint32_t> count(fabric.links().size());
  for (const FlowAssignment& flow : plan.flows)
    flow.each_path([&](const fabric::Path& path) {
      for (LinkId id : path) ++count[id];
    });
  return count;
}

namespace {

std::string path_fault(const Graph& fabric, const FlowDemand& demand, const fabric::Path& path) {
  if (path.empty()) return {};
  const fabric::Nic& src = *fabric.find_nic(demand.src);
  const fabric::Nic& dst = *fabric.find_nic(demand.dst);
  if (path.front() != src.uplink || path.back() != fabric.link(dst.uplink).reverse) return "wrong ends";
  for (size_t hop = 1; hop < path.size(); ++hop)
    if (fabric.link(path[hop]).from != fabric.link(path[hop - 1]).to) return "broken";
  for (LinkId id : path)
    if (demand.fixed.empty() && !fabric.link(id).usable()) return "uses a link that is not usable";
  return {};
}

// By phase and round.
std::map<uint32_t, std::map<uint32_t, std::vector<uint64_t>>> loads_of(const Snapshot& snapshot, const Plan& plan) {
  std::map<uint32_t, std::map<uint32_t, std::vector<uint64_t>>> loads;
  for (size_t index = 0; index < plan.flows.size(); ++index) {
    const FlowDemand& demand = snapshot.flows[index];
    auto& load = loads[demand.phase][plan.flows[index].round];
    load.resize(snapshot.fabric->links().size());
    plan.flows[index].each_path([&](const fabric::Path& path) {
      for (LinkId id : path) load[id] += (demand.bytes + demand.subflows - 1) / demand.subflows;
    });
  }
  return loads;
}

}  // namespace

std::string faults(const Snapshot& snapshot, const Plan& plan) {
  if (plan.flows.size() != snapshot.flows.size()) return "wrong number of flows";
  const Graph& fabric = *snapshot.fabric;
  for (size_t index = 0; index < plan.flows.size(); ++index) {
    const FlowDemand& demand = snapshot.flows[index];
    const FlowAssignment& flow = plan.flows[index];
    if (flow.flow_id != demand.flow_id) return "flows out of order";
    if (!demand.fixed.empty() && flow.path != demand.fixed) return fmt::format("fixed flow {} moved", flow.flow_id);
    if (flow.others.size() + 1 != demand.subflows) return fmt::format("wrong number of subflows of {}", flow.flow_id);
    std::vector<SubflowAssignment> subflows = flow.others;
    subflows.push_back({flow.path, flow.backups});
    for (const auto& [path, backups] : subflows) {
      if (const auto fault = path_fault(fabric, demand, path); !fault.empty())
        return fmt::format("path of {}: {}", flow.flow_id, fault);
      for (const auto& backup : backups) {
        if (const auto fault = path_fault(fabric, demand, backup); !fault.empty())
          return fmt::format("backup of {}: {}", flow.flow_id, fault);
        if (backup == path) return fmt::format("backup of {} is its path", flow.flow_id);
      }
    }
  }
  uint64_t max = 0;
  std::vector<uint64_t> busiest(fabric.links().size());
  for (const auto& [phase, rounds] : loads_of(snapshot, plan)) {
    uint64_t drain = 0;
    std::vector<uint64_t> load(busiest.size());
    for (const auto& [round, bytes] : rounds) {
      drain += max_drain_ns(fabric, bytes);
      for (size_t id = 0; id < load.size(); ++id) load[id] += bytes[id];
    }
    max = std::max(max, drain);
    for (size_t id = 0; id < load.size(); ++id) busiest[id] = std::max(busiest[id], load[id]);
  }
  if (busiest != plan.link_bytes) return "link_bytes are not those of the paths";
  if (max != plan.max_drain_ns) return fmt::format("max_drain_ns is {}, recomputed {}", plan.max_drain_ns, max);
  if (plan.fluid_bound_ns > plan.lower_bound_ns) return "the fluid bound is above the bound for whole flows";
  if (plan.lower_bound_ns > max) return fmt::format("bound {} above the plan's {}", plan.lower_bound_ns, max);
  return {};
}

uint64_t brute_force_ns(const Snapshot& snapshot) {
  const Graph& fabric = *snapshot.fabric;
  std::vector<uint64_t> load(fabric.links().size());
  std::vector<std::vector<fabric::Path>> options;
  for (const FlowDemand& demand : snapshot.flows) {
    options.push_back(demand.fixed.empty() ? fabric.paths(*fabric.find_nic(demand.src), *fabric.find_nic(demand.dst))
                                           : std::vector<fabric::Path>{demand.fixed});
    if (options.back().empty()) options.back().emplace_back();
  }
  uint64_t best = UINT64_MAX;
  const auto add = [&](const fabric::Path& path, uint64_t bytes) {
    for (LinkId id : path) load[id] += bytes;
  };
  const auto descend = [&](const auto& self, size_t index, uint64_t so_far) -> void {
    if (so_far >= best) return;
    if (index == options.size()) {
      best = so_far;
      return;
    }
    for (const fabric::Path& path : options[index]) {
      add(path, snapshot.flows[index].bytes);
      uint64_t worst = so_far;
      for (LinkId id : path) worst = std::max(worst, drain_ns(load[id], fabric.link(id).rate_bps));
      self(self, index + 1, worst);
      add(path, -snapshot.flows[index].bytes);
    }
  };
  descend(descend, 0, 0);
  return best;
}

Plan plan_checked(const Snapshot& snapshot) {
  auto result = plan(snapshot);
  if (!result) FAIL(result.error().message);
  CHECK(faults(snapshot, *result) == "");
  return *std::move(result);
}

}  // namespace orrery::planner::testing
