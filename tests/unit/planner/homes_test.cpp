#include "controller/planner/homes.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

namespace {

// In phase k host order[i] sends to order[i + k].
std::vector<FlowDemand> shifts(const fabric::Graph& fabric, const std::vector<uint32_t>& order) {
  std::vector<FlowDemand> flows;
  const auto hosts = static_cast<uint32_t>(order.size());
  for (uint32_t shift = 1; shift < hosts; ++shift)
    for (uint32_t at = 0; at < hosts; ++at) {
      flows.push_back(demand(fabric, flows.size() + 1, order[at], order[(at + shift) % hosts], 1'000'000));
      flows.back().phase = shift;
    }
  return flows;
}

std::vector<uint32_t> in_order(uint32_t hosts) {
  std::vector<uint32_t> order(hosts);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

// Three leaves with four hosts each, two spines, and two cables between each leaf and spine.
fabric::Graph twin_cables() {
  constexpr uint64_t kRate = 100'000'000, kQueue = 262'144;
  fabric::Topology topology{.name = "twins"};
  std::map<std::string, uint32_t> used;  // ports by switch
  const auto add_switch = [&](const std::string& name, uint32_t tier, uint32_t ports) {
    fabric::SwitchSpec spec{
        .name = name, .tier = tier, .hash_seed = static_cast<uint32_t>(topology.switches.size()) + 1};
    for (uint32_t port = 1; port <= ports; ++port) spec.ports.push_back({fmt::format("p{}", port), kRate, kQueue, {}});
    topology.switches.push_back(std::move(spec));
  };
  const auto port_of = [&](const std::string& name) { return fabric::PortRef{name, fmt::format("p{}", ++used[name])}; };
  for (const char* spine : {"spine1", "spine2"}) add_switch(spine, 2, 6);
  for (const char* leaf : {"leaf1", "leaf2", "leaf3"}) {
    add_switch(leaf, 1, 8);
    for (uint32_t host = 0; host < 4; ++host) {
      const auto number = static_cast<uint32_t>(topology.hosts.size());
      const std::string name = fmt::format("h{}", number);
      topology.hosts.push_back({name, {{"eth0", kRate, kQueue, IpAddress::from_v4(0x0a000001u + number)}}});
      topology.links.push_back({{name, "eth0"}, port_of(leaf)});
    }
    for (const char* spine : {"spine1", "spine1", "spine2", "spine2"})
      topology.links.push_back({port_of(leaf), port_of(spine)});
  }
  return fabric::Graph::build(topology);
}

bool is_down(const fabric::Graph& fabric, fabric::LinkId link) {
  return fabric.node(fabric.link(link).from).tier > fabric.node(fabric.link(link).to).tier;
}

// Hosts that each link towards leaves serves, whatever the phase.
std::map<fabric::LinkId, std::set<IpAddress>> served(const Snapshot& snapshot, const Plan& plan) {
  std::map<fabric::LinkId, std::set<IpAddress>> served;
  for (size_t flow = 0; flow < plan.flows.size(); ++flow)
    plan.flows[flow].each_path([&](const fabric::Path& path) {
      for (size_t hop = 1; hop + 1 < path.size(); ++hop)
        if (is_down(*snapshot.fabric, path[hop])) served[path[hop]].insert(snapshot.flows[flow].dst);
    });
  return served;
}

size_t most_served(const Snapshot& snapshot, const Plan& plan) {
  size_t most = 0;
  for (const auto& [link, hosts] : served(snapshot, plan)) most = std::max(most, hosts.size());
  return most;
}

// Flows that do not come down by the link by which most come to the same host.
uint32_t astray(const Snapshot& snapshot, const Plan& plan) {
  std::map<IpAddress, std::map<fabric::LinkId, uint32_t>> by;
  for (size_t flow = 0; flow < plan.flows.size(); ++flow)
    if (const fabric::Path& path = plan.flows[flow].path; path.size() > 2)
      ++by[snapshot.flows[flow].dst][path[path.size() - 2]];
  uint32_t astray = 0;
  for (const auto& [host, links] : by) {
    uint32_t most = 0;
    for (const auto& [link, flows] : links) most = std::max(most, flows), astray += flows;
    astray -= most;
  }
  return astray;
}

}  // namespace

TEST_CASE("however phases of an all-to-all overlap, a link down serves no more hosts than its share") {
  struct Case {
    std::string name;
    fabric::Graph fabric;
    uint32_t leaves;
    uint32_t share;
  };
  const Case cases[] = {
      {"as many links as hosts", clos({.leaves = 4, .spines = 4, .hosts = 16}), 4, 1},
      {"more links", clos({.leaves = 4, .spines = 6, .hosts = 16}), 4, 1},
      {"half as many links", clos({.leaves = 4, .spines = 2, .hosts = 16}), 4, 2},
      {"parallel links", twin_cables(), 3, 1},
      {"three tiers", fat_tree(4), 8, 1},
  };
  for (const auto& [name, fabric, leaves, share] : cases)
    for (const bool interleave : {false, true}) {
      INFO(name << (interleave ? ", interleaved" : ", leaf by leaf"));
      const auto hosts = static_cast<uint32_t>(fabric.nics().size());
      const Snapshot snapshot{.fabric = &fabric,
                              .flows = shifts(fabric, interleave ? interleaved(hosts, leaves) : in_order(hosts))};
      const Plan plan = plan_checked(snapshot);
      CHECK(plan.optimal());
      CHECK(most_served(snapshot, plan) == share);
    }
}

TEST_CASE("where leaves are unequal, nine of ten flows come down where their destination always receives") {
  const auto fabric = clos({.leaves = 3, .spines = 4, .hosts = 12});
  // Two hosts of the last leaf stay out of it.
  for (const std::vector<uint32_t>& order : {in_order(10), {0, 4, 8, 1, 5, 9, 2, 6, 3, 7}}) {
    const Snapshot snapshot{.fabric = &fabric, .flows = shifts(fabric, order)};
    const Plan plan = plan_checked(snapshot);
    CHECK(plan.optimal());
    CHECK(astray(snapshot, plan) * 10 <= plan.flows.size());
  }
}
