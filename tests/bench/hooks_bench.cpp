// What the preload library adds to an NCCL call and to a TCP send. The program runs itself as a child, bare and under
// the library, in turns, and compares; NCCL is a fake whose calls do nothing, so that what is added stands alone. The
// agent is a fake that drains real rings, of the size the agent makes them by default.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "tests/fakes/fake_agent.h"
#include "tests/preload/nccl_calls.h"
#include "tests/preload/probe_network.h"
#include "tests/preload/run_program.h"

namespace {

using namespace orrery;

constexpr int kNcclBatch = 500, kNcclBatches = 300;
constexpr int kSendBatch = 200, kSendBatches = 100;
constexpr int kTurns = 7;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

// Child: prints the median cost of one call.
int measure_nccl() {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  if (ncclCommInitRank(&comm, 4, id, 1) != 0) return 1;
  std::vector<double> costs;
  for (int batch = 0; batch < kNcclBatches; ++batch) {
    const uint64_t start = monotonic_now_ns();
    for (int i = 0; i < kNcclBatch; ++i) ncclAllReduce(nullptr, nullptr, 1000, 7, 0, comm, nullptr);
    costs.push_back(static_cast<double>(monotonic_now_ns() - start) / kNcclBatch);
    usleep(4000);  // the agent drains
  }
  std::printf("cost %.3f\n", median(costs));
  return 0;
}

// Sending to oneself through TCP, one byte at a time; the receiver's work is kept out of the measurement.
int measure_send() {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, 4, id, 1);  // attaches
  probe::enter_network();
  const probe::Pair pair = probe::connected_pair();
  std::vector<double> costs;
  char sink[4096];
  for (int batch = 0; batch < kSendBatches; ++batch) {
    const uint64_t start = monotonic_now_ns();
    for (int i = 0; i < kSendBatch; ++i)
      if (send(pair.client, "x", 1, 0) != 1) return 1;
    costs.push_back(static_cast<double>(monotonic_now_ns() - start) / kSendBatch);
    for (int left = kSendBatch; left > 0;) left -= static_cast<int>(recv(pair.server, sink, sizeof(sink), 0));
  }
  std::printf("cost %.3f\n", median(costs));
  return 0;
}

double child_cost(const std::string& what, const ProgramOptions& options) {
  const ProgramResult result = run_program({"/proc/self/exe", "--measure", what}, options);
  double cost = 0;
  if (result.status != 0 || std::sscanf(result.out.c_str(), "cost %lf", &cost) != 1) {
    std::fprintf(stderr, "hooks: measuring %s failed (status %d): %s%s\n", what.c_str(), result.status,
                 result.out.c_str(), result.err.c_str());
    std::exit(result.status == 77 ? 77 : 1);
  }
  return cost;
}

// Each way in turn, so that what disturbs the machine disturbs all alike.
std::map<std::string, double> costs_of(const std::string& what, const std::string& socket) {
  const std::map<std::string, ProgramOptions> ways{
      {"bare", {.preload = false}},
      {"disabled", {.environment = {{"ORRERY_DISABLE", "1"}}}},
      {"idle", {}},
      {"attached", {.agent_socket = socket}},
  };
  std::map<std::string, std::vector<double>> costs;
  for (int turn = 0; turn < kTurns; ++turn)
    for (const auto& [way, options] : ways) costs[way].push_back(child_cost(what, options));
  std::map<std::string, double> best;
  for (const auto& [way, values] : costs) {
    best[way] = median(values);
    std::fprintf(stderr, "hooks: %s %s: %.1f ns per call\n", what.c_str(), way.c_str(), best[way]);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--measure")
    return std::string(argv[2]) == "nccl" ? measure_nccl() : measure_send();
  const std::string socket = scratch_socket_path();
  fakes::FakeAgent agent(socket,
                         {.shape = {.ring_count = 4, .ring_events = 1024, .flow_slots = 16}, .keeps_events = false});
  auto nccl = costs_of("nccl", socket);
  const uint64_t recorded = agent.count_of(ORRERY_EVENT_COLLECTIVE);
  const uint64_t expected = uint64_t{kTurns} * kNcclBatch * kNcclBatches;
  if (recorded != expected)
    std::fprintf(stderr, "hooks: only %llu of %llu calls were recorded: the attached figure is too good\n",
                 static_cast<unsigned long long>(recorded), static_cast<unsigned long long>(expected));
  auto send = costs_of("send", socket);
  nlohmann::json figures = nlohmann::json::array();
  const auto add = [&](const char* name, double with, double bare, nlohmann::json target) {
    figures.push_back({{"name", name},
                       {"value", with - bare},
                       {"unit", "ns"},
                       {"better", "lower"},
                       {"target", target},
                       {"baseline", bare},
                       {"ratio", nullptr}});
  };
  add("nccl_hook_ns", nccl["attached"], nccl["bare"], 60);
  add("idle_hook_ns", nccl["idle"], nccl["bare"], 3);
  add("disabled_hook_ns", nccl["disabled"], nccl["bare"], 3);
  add("send_hook_ns", send["attached"], send["bare"], nullptr);
  add("send_idle_hook_ns", send["idle"], send["bare"], nullptr);
  figures.push_back({{"name", "nccl_hook_lost"},
                     {"value", expected - recorded},
                     {"unit", "events"},
                     {"better", "lower"},
                     {"target", 0},
                     {"baseline", nullptr},
                     {"ratio", nullptr}});
  std::printf("%s\n", nlohmann::json{{"figures", figures}}.dump(2).c_str());
}
