// How fast the simulator is: link hops per CPU second of one thread on the workload that public simulators were
// measured with (RoCE with an ACK for every packet, PFC, DCQCN; one 8 MiB flow per host in a permutation, hashed paths,
// 100 Gb/s, 4000-byte payload), and what a second thread brings.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "controller/fabric/topology.h"
#include "tools/sim/model/program_builder.h"
#include "tools/sim/packet/simulation.h"

namespace {

using namespace orrery;
using namespace orrery::sim;

constexpr uint64_t kFlowBytes = 8'388'608;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

fabric::Graph clos(uint32_t leaves, uint32_t spines, uint32_t hosts) {
  return fabric::Graph::build(
      fabric::generate_leaf_spine(
          {.leaves = leaves, .spines = spines, .hosts = hosts, .rate_bps = 100'000'000'000, .queue_bytes = 16'000'000})
          .value());
}

Program permutation(const fabric::Graph& graph, uint64_t bytes) {
  std::mt19937 random(7);
  std::vector<uint32_t> order(graph.nics().size());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  ProgramBuilder builder(graph);
  for (size_t i = 0; i < order.size(); ++i) {  // one cycle through all hosts: nobody sends to itself
    const uint32_t src = order[i], dst = order[(i + 1) % order.size()];
    const auto port = static_cast<uint16_t>(49'152 + random() % 16'384);
    const auto path = graph.ecmp_path({graph.nics()[src].address, graph.nics()[dst].address, port, 4791, 17});
    builder.add_send_step(builder.add_message(builder.add_qp(src, dst, {*path}), bytes));
  }
  return builder.build().value();
}

nlohmann::json figure(const std::string& name, double value, const char* unit, const char* better, double target) {
  std::fprintf(stderr, "  %-18s %12.3f %s (target %g)\n", name.c_str(), value, unit, target);
  return {{"name", name},     {"value", value},      {"unit", unit},    {"better", better},
          {"target", target}, {"baseline", nullptr}, {"ratio", nullptr}};
}

// Median of several runs: the machine is not ours alone.
double hops_per_cpu_second(const fabric::Graph& graph, const Program& program, int runs) {
  std::vector<double> speeds;
  for (int run = 0; run < runs; ++run) {
    const double before = cpu_seconds();
    const RunResult result = run_packets(graph, program, PacketConfig{});
    if (result.totals.delivered_messages != program.messages.size() || result.totals.drops != 0) {
      std::fprintf(stderr, "the run is wrong: %lu of %zu messages delivered, %lu drops\n",
                   static_cast<unsigned long>(result.totals.delivered_messages), program.messages.size(),
                   static_cast<unsigned long>(result.totals.drops));
      std::exit(1);
    }
    speeds.push_back(static_cast<double>(result.totals.hops) / (cpu_seconds() - before));
  }
  std::nth_element(speeds.begin(), speeds.begin() + runs / 2, speeds.end());
  return speeds[static_cast<size_t>(runs / 2)];
}

double threads2_ratio(const fabric::Graph& graph, const Program& program) {
  std::vector<double> ratios;
  for (int run = 0; run < 3; ++run) {
    double wall[2];
    std::vector<Time> delivered[2];
    for (uint32_t i = 0; i < 2; ++i) {
      PacketConfig config;
      config.threads = i + 1;
      const double before = wall_seconds();
      RunResult result = run_packets(graph, program, config);
      wall[i] = wall_seconds() - before;
      delivered[i] = std::move(result.delivered_at);
    }
    if (delivered[0] != delivered[1]) {
      std::fprintf(stderr, "two threads gave another result than one\n");
      std::exit(1);
    }
    ratios.push_back(wall[0] / wall[1]);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[1];
}

}  // namespace

int main() {
  nlohmann::json figures = nlohmann::json::array();
  struct Size {
    uint32_t leaves, spines, hosts;
    uint64_t bytes;
    int runs;
    double target;
  };
  for (const Size& size : {Size{4, 4, 16, 16 * kFlowBytes, 5, 15e6}, Size{16, 8, 128, 4 * kFlowBytes, 5, 10e6},
                           Size{32, 32, 1024, kFlowBytes, 3, 5e6}, Size{128, 64, 8192, kFlowBytes / 4, 1, 2e6}}) {
    const fabric::Graph graph = clos(size.leaves, size.spines, size.hosts);
    const Program program = permutation(graph, size.bytes);
    figures.push_back(figure("hops_per_s_" + std::to_string(size.hosts), hops_per_cpu_second(graph, program, size.runs),
                             "hops/s", "higher", size.target));
    if (size.hosts != 1024) continue;
    figures.push_back(figure("memory_1024_mib", resident_mib(), "MiB", "lower", 200));
    figures.push_back(figure("threads2_ratio", threads2_ratio(graph, program), "x", "higher", 1.6));
  }
  std::printf("%s\n", nlohmann::json{{"figures", figures}}.dump(1).c_str());
  return 0;
}
