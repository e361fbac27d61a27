// What the preload library adds to an NCCL call, to ibv_post_send, ibv_poll_cq and to a TCP send, and what the same
// event costs by an eBPF uprobe and by an LTTng-UST tracepoint. The program runs itself as a child, bare and under the
// library, in turns, and compares; NCCL and libibverbs are fakes whose calls do nothing, so that what is added stands
// alone. The agent is a fake that drains real rings, of the size the agent makes them by default.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/hook_costs.h"
#include "tests/bench/hooks_children.h"
#include "tests/bench/lttng_session.h"
#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"

namespace {

using namespace orrery;
using bench::Cost;

constexpr int kTurns = 5;
// The agent's defaults (limits.rings_count, ring_events_count, flows_count).
constexpr shm::SegmentShape kShape{.ring_count = 32, .ring_events = 1024, .flow_slots = 1024};

using Costs = std::map<std::string, std::vector<Cost>>;

// The command that measures `what`.
std::vector<std::string> command_for(const std::string& what) {
  if (what == "post_send" || what == "poll_cq") return {ORRERY_VERBS_PROBE, "measure", what};
  return {"/proc/" + std::to_string(getpid()) + "/exe", "--measure", what};
}

// Adds what the child told. False when it says that this machine cannot do it; any other failure ends the run.
bool run_child(const std::string& what, const std::string& way, const ProgramOptions& options, Costs& costs,
               std::vector<std::string> prefix = {}) {
  for (const std::string& argument : command_for(what)) prefix.push_back(argument);
  const ProgramResult result = run_program(prefix, options);
  std::fputs(result.err.c_str(), stderr);
  if (result.status == bench::kSkipped) return false;
  bool any = false;
  for (const std::string& name : {what, what + "_bare"}) {
    Cost cost;
    if (!bench::told(result.out, name, &cost)) continue;
    costs[name == what ? way : way + "_bare"].push_back(cost);
    any = true;
  }
  if (result.status == 0 && any) return true;
  std::fprintf(stderr, "hooks: measuring %s failed (status %d): %s\n", what.c_str(), result.status, result.out.c_str());
  std::exit(1);
}

Cost typical(const std::vector<Cost>& costs) {
  std::vector<double> medians, p999s;
  for (const Cost& cost : costs) {
    medians.push_back(cost.median);
    p999s.push_back(cost.p999);
  }
  return {bench::quantile(medians, 0.5), bench::quantile(p999s, 0.5)};
}

// What `way` adds to `bare`, turn by turn: what slows the machine for a while slows both.
double added(const std::vector<Cost>& way, const std::vector<Cost>& bare) {
  std::vector<double> differences;
  for (size_t turn = 0; turn < way.size(); ++turn) differences.push_back(way[turn].median - bare[turn].median);
  return bench::quantile(differences, 0.5);
}

struct Figures {
  nlohmann::json list = nlohmann::json::array();
  void add(const std::string& name, nlohmann::json value, const char* unit, const char* better, nlohmann::json target,
           nlohmann::json baseline = nullptr, nlohmann::json ratio = nullptr) {
    list.push_back({{"name", name},
                    {"value", value},
                    {"unit", unit},
                    {"better", better},
                    {"target", target},
                    {"baseline", baseline},
                    {"ratio", ratio}});
  }
  // p99.9 as it is, beside that of bare calls.
  void add_hook(const std::string& name, const std::vector<Cost>& with, const std::vector<Cost>& bare,
                nlohmann::json target) {
    add(name + "_ns", added(with, bare), "ns", "lower", target, typical(bare).median);
    add(name + "_p999_ns", typical(with).p999, "ns", "lower", nullptr, typical(bare).p999);
  }
};

// The library's ways and, in the same turns, the other two ways to see a call.
struct Measured {
  Costs nccl, send, post_send, poll_cq, memory;
};

void say_costs(const char* what, const Costs& costs) {
  for (const auto& [way, turns] : costs)
    std::fprintf(stderr, "hooks: %s %s: %.1f ns per call, p99.9 %.0f ns\n", what, way.c_str(), typical(turns).median,
                 typical(turns).p999);
}

Measured measure_all(const std::string& socket, const bench::LttngSession* lttng) {
  const std::map<std::string, ProgramOptions> ways{
      {"bare", {.preload = false}},
      {"disabled", {.environment = {{"ORRERY_DISABLE", "1"}}}},
      {"idle", {}},
      {"attached", {.agent_socket = socket}},
  };
  Measured measured;
  auto& [nccl, send, post_send, poll_cq, memory] = measured;
  bool has_uprobe = true, has_send = true;
  std::vector<std::string> as_nobody;
  if (geteuid() == 0) as_nobody = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  for (int turn = 0; turn < kTurns; ++turn) {
    std::fprintf(stderr, "hooks: turn %d of %d\n", turn + 1, kTurns);
    for (const auto& [way, options] : ways) run_child("nccl", way, options, nccl);
    if (has_uprobe) has_uprobe = run_child("uprobe", "uprobe", {.preload = false}, nccl);
    if (lttng != nullptr)
      run_child("lttng", "lttng", {.preload = false, .environment = lttng->environment()}, nccl, as_nobody);
    for (const auto& [way, options] : ways) {
      ProgramOptions waiting = options;  // until the agent has answered
      waiting.environment.emplace_back("PROBE_WAITS_FOR_AGENT", "1");
      run_child("post_send", way, waiting, post_send);
      run_child("poll_cq", way, waiting, poll_cq);
    }
    for (const auto& [way, options] : ways)
      if (has_send) has_send = run_child("send", way, options, send);
    for (const char* way : {"bare", "attached"}) run_child("rss", way, ways.at(way), memory);
  }
  say_costs("nccl", nccl);
  say_costs("post_send", post_send);
  say_costs("poll_cq", poll_cq);
  say_costs("send", send);
  return measured;
}

void add_other_ways(Figures& figures, Costs& nccl) {
  const double ours = added(nccl["attached"], nccl["bare"]);
  if (nccl.contains("uprobe")) {
    const double uprobe = added(nccl["uprobe"], nccl["uprobe_bare"]);
    figures.add("uprobe_ratio", uprobe / ours, "x", "higher", 10, uprobe, uprobe / ours);
    figures.add("uprobe_p999_ns", typical(nccl["uprobe"]).p999, "ns", "lower", nullptr,
                typical(nccl["uprobe_bare"]).p999);
  }
  if (nccl.contains("lttng")) {
    const double lttng = typical(nccl["lttng"]).median;
    figures.add("lttng_ratio", lttng / ours, "x", "higher", 3, lttng, lttng / ours);
    figures.add("lttng_p999_ns", typical(nccl["lttng"]).p999, "ns", "lower", nullptr);
  }
}

int run() {
  const std::string socket = scratch_socket_path();
  fakes::FakeAgent agent(socket, {.shape = kShape, .keeps_events = false});
  std::unique_ptr<bench::LttngSession> lttng;
  if (bench::is_lttng_built_in()) {
    lttng = std::make_unique<bench::LttngSession>();
    if (!lttng->fault().empty()) {
      std::fprintf(stderr, "hooks: no LTTng to compare with: %s\n", lttng->fault().c_str());
      lttng.reset();
    }
  } else {
    std::fprintf(stderr, "hooks: no LTTng to compare with: built without liblttng-ust-dev\n");
  }
  Measured measured = measure_all(socket, lttng.get());
  auto& nccl = measured.nccl;
  const uint64_t recorded = agent.count_of(ORRERY_EVENT_COLLECTIVE);
  const uint64_t expected = uint64_t{kTurns} * (2 * bench::kNcclBatch * bench::kNcclBatches + 1);
  Figures figures;
  figures.add_hook("nccl_hook", nccl["attached"], nccl["bare"], 60);
  figures.add_hook("idle_hook", nccl["idle"], nccl["bare"], 3);
  figures.add_hook("disabled_hook", nccl["disabled"], nccl["bare"], 3);
  add_other_ways(figures, nccl);
  for (const char* name : {"post_send", "poll_cq"}) {
    Costs& costs = std::string(name) == "post_send" ? measured.post_send : measured.poll_cq;
    figures.add_hook(name + std::string("_hook"), costs["attached"], costs["bare"], 25);
    figures.add_hook(name + std::string("_idle_hook"), costs["idle"], costs["bare"], 3);
    figures.add_hook(name + std::string("_disabled_hook"), costs["disabled"], costs["bare"], 3);
  }
  if (!measured.send.empty()) {
    figures.add_hook("send_hook", measured.send["attached"], measured.send["bare"], nullptr);
    figures.add_hook("send_idle_hook", measured.send["idle"], measured.send["bare"], nullptr);
  }
  const int unattached = kTurns * 4 + (measured.send.empty() ? 0 : kTurns) - agent.attachments();
  if (unattached > 0)
    std::fprintf(stderr, "hooks: %d of the children were not attached: the figures are too good\n", unattached);
  figures.add("nccl_hook_lost", expected - recorded, "events", "lower", 0);
  figures.add("idle_memory_bytes", added(measured.memory["attached"], measured.memory["bare"]), "bytes", "lower",
              4 << 20, typical(measured.memory["bare"]).median);
  figures.add("segment_bytes", kShape.total_bytes(), "bytes", "lower", nullptr);
  std::printf("%s\n", nlohmann::json{{"figures", figures.list}}.dump(2).c_str());
  return 0;
}

int measure(const std::string& what) {
  const std::map<std::string, int (*)()> children{{"nccl", bench::measure_nccl},
                                                  {"send", bench::measure_send},
                                                  {"rss", bench::measure_memory},
                                                  {"uprobe", bench::measure_uprobe},
                                                  {"lttng", bench::measure_lttng}};
  return children.at(what)();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--measure") return measure(argv[2]);
  return run();
}
