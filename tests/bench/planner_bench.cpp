// How long planning takes, and how much lower the busiest link is than under ECMP and under greedy placement of the
// same flows.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "controller/fabric/topology.h"
#include "controller/planner/plan_cache.h"
#include "controller/planner/planner.h"
#include "controller/planner/problem.h"
#include "controller/planner/search.h"

namespace {

using namespace orrery;
using namespace orrery::planner;
using fabric::Graph;

constexpr uint64_t kBytes = 1'000'000;
constexpr int kSeeds = 25;  // of the ECMP baseline: one draw of source ports each

struct Case {
  std::string name;
  Graph fabric;
  std::vector<FlowDemand> flows;
  double target_us = 0;
  bool exact = true;
  Snapshot snapshot() const { return {.fabric = &fabric, .flows = flows}; }
};

Graph clos(uint32_t leaves, uint32_t spines, uint32_t hosts) {
  auto topology =
      fabric::generate_leaf_spine({.leaves = leaves, .spines = spines, .hosts = hosts, .rate_bps = 100'000'000'000});
  if (!topology) {
    std::fprintf(stderr, "%s\n", topology.error().message.c_str());
    std::exit(1);
  }
  return Graph::build(*topology);
}

std::vector<FlowDemand> send(const Graph& fabric, const std::vector<uint32_t>& to) {
  std::vector<FlowDemand> flows;
  for (uint32_t host = 0; host < to.size(); ++host)
    if (to[host] != host)
      flows.push_back({.flow_id = host + 1u,
                       .comm_id = 1,
                       .src = fabric.nics()[host].address,
                       .dst = fabric.nics()[to[host]].address,
                       .bytes = kBytes});
  return flows;
}

// Host k sends to the host of the same place on the next leaf; the last leaf's to the next place on the first.
std::vector<uint32_t> interleaved_ring(uint32_t hosts, uint32_t leaves) {
  std::vector<uint32_t> to(hosts);
  const uint32_t per_leaf = hosts / leaves;
  for (uint32_t host = 0; host < hosts; ++host)
    to[host] = host + per_leaf < hosts ? host + per_leaf : (host % per_leaf + 1) % per_leaf;
  return to;
}

std::vector<uint32_t> permutation(uint32_t hosts) {
  std::vector<uint32_t> to(hosts);
  std::iota(to.begin(), to.end(), 0);
  std::mt19937 random(1);
  for (uint32_t at = hosts; at > 1; --at) std::swap(to[at - 1], to[random() % at]);
  return to;
}

// Takes down `count` cables between leaves and spines, spread over the fabric.
void fail_cables(Graph& fabric, uint32_t count) {
  std::vector<fabric::LinkId> uplinks;
  for (fabric::LinkId id = 0; id < fabric.links().size(); ++id)
    if (fabric.node(fabric.link(id).from).tier == 1 && fabric.node(fabric.link(id).to).tier == 2) uplinks.push_back(id);
  for (uint32_t cable = 0; cable < count; ++cable) {
    const fabric::LinkId id = uplinks[cable * uplinks.size() / count + cable];
    fabric.set_link_up(id, false);
    fabric.set_link_up(fabric.link(id).reverse, false);
  }
}

double median_us(const auto& work, int rounds) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

// Drain time of the busiest link when every flow takes its hashed path, the mean over draws of source ports.
double ecmp_max_drain_ns(const Case& the) {
  std::mt19937 random(2);
  double sum = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::vector<uint64_t> bytes(the.fabric.links().size());
    for (const FlowDemand& flow : the.flows) {
      const FiveTuple tuple{flow.src, flow.dst, static_cast<uint16_t>(32768 + random() % 28232), 5000, 6};
      for (fabric::LinkId link : the.fabric.ecmp_path(tuple).value_or(fabric::Path{})) bytes[link] += flow.bytes;
    }
    sum += static_cast<double>(max_drain_ns(the.fabric, bytes));
  }
  return sum / kSeeds;
}

uint64_t greedy_max_drain_ns(const Case& the) {
  const Snapshot snapshot = the.snapshot();
  CoreTable table(the.fabric);
  const auto flows = resolve(snapshot, table);
  Problem problem{.fabric = &the.fabric, .fixed_bytes = std::vector<uint64_t>(the.fabric.links().size())};
  for (const ResolvedFlow& flow : *flows)
    problem.items.push_back({flow.demand->bytes, flow.src->uplink, flow.down, flow.cores, kNoChoice});
  std::stable_sort(problem.items.begin(), problem.items.end(),
                   [](const Item& a, const Item& b) { return a.weight > b.weight; });
  Search search(problem);
  search.place_rest();
  return search.max_drain_ns();
}

nlohmann::json figure(const std::string& name, double value, const char* unit, nlohmann::json target,
                      nlohmann::json baseline) {
  nlohmann::json ratio;
  if (baseline.is_number() && value > 0) ratio = baseline.get<double>() / value;
  return {{"name", name},     {"value", value},       {"unit", unit},  {"better", "lower"},
          {"target", target}, {"baseline", baseline}, {"ratio", ratio}};
}

void measure(const Case& the, nlohmann::json& figures) {
  std::fprintf(stderr, "planner: %s, %zu flows\n", the.name.c_str(), the.flows.size());
  const Snapshot snapshot = the.snapshot();
  const auto planned = plan(snapshot);
  if (!planned) {
    std::fprintf(stderr, "%s\n", planned.error().message.c_str());
    std::exit(1);
  }
  const int rounds = the.flows.size() > 500 ? 11 : 101;
  const double plan_us = median_us([&] { return plan(snapshot).has_value(); }, rounds);
  PlanCache cache;
  static_cast<void>(cache.plan(snapshot));
  const double cached_us = median_us([&] { return cache.plan(snapshot).has_value(); }, rounds);
  const double max_ns = static_cast<double>(planned->max_drain_ns);
  figures.push_back(figure(the.name + " planning time", plan_us, "us", the.target_us, nullptr));
  figures.push_back(figure(the.name + " unchanged snapshot, against planning", cached_us, "us", nullptr, plan_us));
  figures.push_back(
      figure(the.name + " busiest link, against ECMP", max_ns / 1e3, "us", nullptr, ecmp_max_drain_ns(the) / 1e3));
  figures.push_back(figure(the.name + " busiest link, against greedy", max_ns / 1e3, "us", nullptr,
                           static_cast<double>(greedy_max_drain_ns(the)) / 1e3));
  const double bound_ns = static_cast<double>(planned->lower_bound_ns);
  figures.push_back(figure(the.name + " busiest link over lower bound", max_ns / bound_ns, "ratio",
                           the.exact ? nlohmann::json(1.0) : nullptr, nullptr));
}

}  // namespace

int main() {
  std::vector<Case> cases;
  cases.push_back({.name = "ring 16 hosts 4x4", .fabric = clos(4, 4, 16), .target_us = 1000});
  cases.back().flows = send(cases.back().fabric, interleaved_ring(16, 4));
  cases.push_back({.name = "permutation 1024 hosts 32x32", .fabric = clos(32, 32, 1024), .target_us = 50'000});
  cases.back().flows = send(cases.back().fabric, permutation(1024));
  cases.push_back({.name = "sizes 1-8, 1024 hosts 32x16, 8 cables down",
                   .fabric = clos(32, 16, 1024),
                   .target_us = 250'000,
                   .exact = false});
  cases.back().flows = send(cases.back().fabric, permutation(1024));
  for (FlowDemand& flow : cases.back().flows) flow.bytes = kBytes * (1 + flow.flow_id * 2654435761u / 65536 % 8);
  fail_cables(cases.back().fabric, 8);
  nlohmann::json figures = nlohmann::json::array();
  for (const Case& each : cases) measure(each, figures);
  std::printf("%s\n", nlohmann::json{{"figures", figures}}.dump().c_str());
}
