// How fast the simulator is: link hops per CPU second of one thread on the workload that public simulators were
// measured with (RoCE with an ACK for every packet, PFC, DCQCN; one 8 MiB flow per host in a permutation, hashed paths,
// 100 Gb/s, 4000-byte payload), and what a second thread brings (its baseline: a second process). A link hop is one
// packet, data or ACK or CNP, that has passed one cable; pause frames do not count.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "controller/fabric/topology.h"
#include "tools/sim/fluid/simulation.h"
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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
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
  return median(speeds);
}

double seconds_of(const fabric::Graph& graph, const Program& program, uint32_t threads, std::vector<Time>& delivered) {
  PacketConfig config;
  config.threads = threads;
  const double before = wall_seconds();
  delivered = run_packets(graph, program, config).delivered_at;
  return wall_seconds() - before;
}

// The same run in two processes at once, which share nothing but the machine.
double seconds_of_two(const fabric::Graph& graph, const Program& program) {
  std::vector<Time> delivered;
  const double before = wall_seconds();
  const pid_t child = fork();
  if (child < 0) return std::perror("sim_bench: fork"), std::exit(1), 0;
  seconds_of(graph, program, 1, delivered);
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return wall_seconds() - before;
}

// What a second thread brings, beside what a second processor brings where nothing is shared: no program can have more.
struct Scaling {
  double threads, processes;
};

Scaling scaling_of_two(const fabric::Graph& graph, const Program& program) {
  std::vector<double> threads, processes;
  for (int run = 0; run < 5; ++run) {
    std::vector<Time> alone, together;
    const double one = seconds_of(graph, program, 1, alone);
    threads.push_back(one / seconds_of(graph, program, 2, together));
    processes.push_back(2 * one / seconds_of_two(graph, program));
    if (alone == together) continue;
    std::fprintf(stderr, "two threads gave another result than one\n");
    std::exit(1);
  }
  return {median(threads), median(processes)};
}

// As many 8 MiB flows a host as said, each to a host of its own by a hashed path, beginning at a random moment.
Program staggered(const fabric::Graph& graph, uint32_t flows_per_host) {
  std::mt19937_64 random(7);
  ProgramBuilder builder(graph);
  const auto hosts = static_cast<uint32_t>(graph.nics().size());
  const Time spread = 2 * flows_per_host * kFlowBytes * 80;  // NICs are half busy at 100 Gb/s
  for (uint32_t i = 0; i < flows_per_host * hosts; ++i) {
    const uint32_t src = i % hosts, dst = (src + 1 + static_cast<uint32_t>(random() % (hosts - 1))) % hosts;
    const auto port = static_cast<uint16_t>(49'152 + random() % 16'384);
    const auto path = graph.ecmp_path({graph.nics()[src].address, graph.nics()[dst].address, port, 4791, 17});
    builder.add_send_step(builder.add_message(builder.add_qp(src, dst, {*path}), kFlowBytes), random() % spread);
  }
  return builder.build().value();
}

// One all-reduce of 1 GiB over `rings` rings of all hosts in one random order. A ring has 2(n-1) steps of equal
// messages, which follow each other without a gap; they are merged into one message a half: a host sends its part of
// the all-gather when the reduce-scatter has come to it. Ring r from host i goes by spine (i + r): as a plan would have
// it.
Program rings(const fabric::Graph& graph, uint32_t spines, uint32_t rings) {
  const auto hosts = static_cast<uint32_t>(graph.nics().size());
  const auto leaf_of = [&](uint32_t host) { return graph.link(graph.nics()[host].uplink).to; };
  std::vector<std::vector<uint32_t>> up(graph.nodes().size()), down(graph.nodes().size());  // by leaf, then spine
  for (const fabric::Nic& nic : graph.nics()) {
    const fabric::NodeId leaf = graph.link(nic.uplink).to;
    if (!up[leaf].empty()) continue;
    for (const fabric::LinkId link : graph.node(leaf).egress)
      if (graph.node(graph.link(link).to).kind == fabric::NodeKind::kSwitch) {
        up[leaf].push_back(link);
        down[leaf].push_back(graph.link(link).reverse);
      }
  }
  std::mt19937 random(7);
  std::vector<uint32_t> order(hosts);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  Program program;
  const uint32_t flows = hosts * rings;
  const uint64_t half = (uint64_t{1} << 30) / rings / hosts * (hosts - 1);
  program.qps.reserve(flows);
  program.paths.reserve(flows);
  program.messages.reserve(2 * flows);
  program.steps.reserve(2 * flows);
  for (uint32_t ring = 0; ring < rings; ++ring)
    for (uint32_t i = 0; i < hosts; ++i) {
      const uint32_t src = order[i], dst = order[(i + 1) % hosts], spine = (src + ring) % spines;
      const uint32_t qp = ring * hosts + i, from = leaf_of(src), to = leaf_of(dst),
                     last = graph.link(graph.nics()[dst].uplink).reverse;
      PathLinks path{{graph.nics()[src].uplink, last, kNone, kNone, kNone, kNone, kNone, kNone}};
      if (from != to)
        path = {{graph.nics()[src].uplink, up[from][spine], down[to][spine], last, kNone, kNone, kNone, kNone}};
      program.paths.push_back(path);
      program.qp_paths.push_back(qp);
      program.qps.push_back(
          {.src = src, .dst = dst, .first_path = qp, .path_count = 1, .first_message = 2 * qp, .message_count = 2});
      const uint32_t next_gather = 2 * (ring * hosts + (i + 1) % hosts) + 1;
      for (uint32_t part = 0; part < 2; ++part) {
        program.messages.push_back(
            {.qp = qp, .bytes = half, .on_delivered = {2 * qp, part == 0 ? 1u : 0u}, .on_acknowledged = {}});
        program.steps.push_back({.host = src, .pending = part, .delay = 0, .message = 2 * qp + part, .successors = {}});
        program.qp_messages.push_back(2 * qp + part);
        program.successors.push_back(next_gather);
      }
    }
  return program;
}

double fluid_seconds(const fabric::Graph& graph, const Program& program, int runs) {
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    const double before = cpu_seconds();
    const RunResult result = run_fluid(graph, program, {});
    seconds.push_back(cpu_seconds() - before);
    if (result.totals.delivered_messages == program.messages.size()) continue;
    std::fprintf(stderr, "the fluid run is wrong: %lu of %zu messages delivered\n",
                 static_cast<unsigned long>(result.totals.delivered_messages), program.messages.size());
    std::exit(1);
  }
  return median(seconds);
}

void measure_fluid_1024(nlohmann::json& figures) {
  const fabric::Graph graph = clos(32, 32, 1024);
  figures.push_back(
      figure("fluid_1024_s", fluid_seconds(graph, permutation(graph, kFlowBytes), 5), "s", "lower", 0.02));
  figures.push_back(figure("fluid_staggered_s", fluid_seconds(graph, staggered(graph, 10), 3), "s", "lower", 0.5));
}

void measure_fluid_65536(nlohmann::json& figures) {
  const fabric::Graph graph = clos(1024, 64, 65'536);
  const Program program = rings(graph, 64, 64);
  figures.push_back(figure("fluid_65536_s", fluid_seconds(graph, program, 1), "s", "lower", 10));
  figures.push_back(figure("fluid_65536_mib", resident_mib(), "MiB", "lower", 4096));
}

struct Size {
  uint32_t leaves, spines, hosts;
  uint64_t bytes;
  int runs;
  double target;
};

void measure_packets(nlohmann::json& figures, const Size& size) {
  const fabric::Graph graph = clos(size.leaves, size.spines, size.hosts);
  const Program program = permutation(graph, size.bytes);
  figures.push_back(figure("hops_per_s_" + std::to_string(size.hosts), hops_per_cpu_second(graph, program, size.runs),
                           "hops/s", "higher", size.target));
  if (size.hosts != 1024) return;
  figures.push_back(figure("memory_1024_mib", resident_mib(), "MiB", "lower", 200));
  const Scaling two = scaling_of_two(graph, program);
  figures.push_back(figure("threads2_ratio", two.threads, "x", "higher", 1.6));
  figures.back()["baseline"] = two.processes;
  figures.back()["ratio"] = two.threads / two.processes;
  std::fprintf(stderr, "  two processes that share nothing: %.3f x\n", two.processes);
}

// Each case in a process of its own, so that none inherits the memory of another.
template <typename Measure>
void measure_apart(nlohmann::json& figures, Measure measure) {
  int ends[2];
  if (pipe(ends) != 0) return std::perror("sim_bench: pipe"), std::exit(1);
  const pid_t child = fork();
  if (child < 0) return std::perror("sim_bench: fork"), std::exit(1);
  if (child == 0) {
    close(ends[0]);
    nlohmann::json mine = nlohmann::json::array();
    measure(mine);
    const std::string text = mine.dump();
    const bool written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::exit(1);
  for (auto& one : nlohmann::json::parse(text)) figures.push_back(std::move(one));
}

}  // namespace

int main() {
  nlohmann::json figures = nlohmann::json::array();
  measure_apart(figures, measure_fluid_1024);
  measure_apart(figures, measure_fluid_65536);
  for (const Size& size : {Size{4, 4, 16, 16 * kFlowBytes, 5, 15e6}, Size{16, 8, 128, 4 * kFlowBytes, 5, 10e6},
                           Size{32, 32, 1024, kFlowBytes, 3, 5e6}, Size{128, 64, 8192, kFlowBytes / 4, 1, 2e6}})
    measure_apart(figures, [&](nlohmann::json& mine) { measure_packets(mine, size); });
  std::printf("%s\n", nlohmann::json{{"figures", figures}}.dump(1).c_str());
  return 0;
}
