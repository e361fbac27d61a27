// How much slower orrery-bench is when the library records, over TCP on loopback, against the noise of the same runs
// without it: in each turn it runs twice without (A/A) and once with. Two ranks, so two cores are enough.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"

namespace {

using namespace orrery;

constexpr int kTurns = 9;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

// Milliseconds of the median iteration.
double run_once(const std::string& results, bool preload, const std::string& socket) {
  static int port = 20'000 + getpid() % 20'000;
  ++port;
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ProgramOptions options{.preload = preload, .agent_socket = socket};
    options.environment = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(port)}};
    ranks.push_back(std::make_unique<Program>(
        std::vector<std::string>{ORRERY_BENCH_PROGRAM, "all-reduce", "--min-bytes", "4M", "--iterations", "200",
                                 "--warmup", "20", "--no-check", "--json", results},
        options));
  }
  for (const auto& rank : ranks) {
    const ProgramResult result = rank->finish();
    if (result.status == 0) continue;
    std::fprintf(stderr, "recording: orrery-bench ended with status %d: %s\n", result.status, result.err.c_str());
    std::exit(1);
  }
  std::ifstream file(results);
  return nlohmann::json::parse(file)["sizes"][0]["p50_ms"].get<double>();
}

}  // namespace

int main() {
  const std::string socket = scratch_socket_path(), results = socket + ".json";
  fakes::FakeAgent agent(socket,
                         {.shape = {.ring_count = 32, .ring_events = 1024, .flow_slots = 1024}, .keeps_events = false});
  std::vector<double> slowdowns, noises;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double first = run_once(results, false, socket);
    const double with = run_once(results, true, socket);
    const double second = run_once(results, false, socket);
    // Each against the mean of the two beside it, so that a machine that drifts does not count for either.
    slowdowns.push_back(with / ((first + second) / 2));
    noises.push_back(second / first);
    std::fprintf(stderr, "recording: turn %d: without %.3f ms, with %.3f ms, without %.3f ms\n", turn + 1, first, with,
                 second);
  }
  std::filesystem::remove(results);
  double noise = 0;
  for (double ratio : noises) noise = std::max(noise, std::abs(ratio - 1));
  const double slowdown = median(slowdowns);
  const uint64_t recorded = agent.count_of(ORRERY_EVENT_COLLECTIVE);
  std::fprintf(stderr, "recording: %.4f times as long with recording; A/A runs differ by up to %.4f; %llu events\n",
               slowdown, noise, static_cast<unsigned long long>(recorded));
  if (recorded == 0) {
    std::fprintf(stderr, "recording: nothing was recorded, so nothing was measured\n");
    return 1;
  }
  const nlohmann::json none = nullptr;
  const auto figure = [&](const char* name, double value, nlohmann::json target, nlohmann::json baseline) {
    return nlohmann::json{{"name", name},     {"value", value},       {"unit", "x"},  {"better", "lower"},
                          {"target", target}, {"baseline", baseline}, {"ratio", none}};
  };
  const nlohmann::json figures = {figure("recording_slowdown", slowdown, 1 + noise, median(noises)),
                                  figure("recording_aa_noise", 1 + noise, none, none)};
  std::printf("%s\n", nlohmann::json{{"figures", figures}}.dump(2).c_str());
}
