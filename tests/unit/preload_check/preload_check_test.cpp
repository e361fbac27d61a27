// orrery-preload-check: from findings to verdicts, the command line, and the reference page.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "common/abi/attach_abi.h"
#include "tools/preload_check/options.h"
#include "tools/preload_check/report.h"
#include "tools/preload_check/verdict.h"

namespace orrery::preload_check {
namespace {

// A program that links NCCL on a machine with everything.
Findings everything() {
  Findings found;
  found.program = "/opt/train";
  found.libc = Libc::kGlibc;
  found.library = "/opt/liborrery_preload.so";
  found.nccl = {NcclReach::kLinked, "/opt/libnccl.so.2", 22304, true};
  found.verbs_library = "/lib/libibverbs.so.1";
  found.rdma_devices = {"rxe0"};
  found.agent = {"/run/agent.sock", AgentState::kAnswers, 2, ""};
  return found;
}

LayerVerdict layer(const Verdict& verdict, const std::string& name) {
  for (const LayerVerdict& one : verdict.layers)
    if (one.name == name) return one;
  FAIL("no layer " << name);
  return {};
}

LayerState state(const Findings& found, const std::string& name) {
  return layer(decide(found), name).state;
}

}  // namespace

TEST_CASE("where everything is in place every layer attaches but the profiler that nobody asked for") {
  const Verdict verdict = decide(everything());
  CHECK(verdict.outcome == Outcome::kAttaches);
  for (const char* name : {"nccl", "dlsym", "verbs", "sockets"})
    CHECK(layer(verdict, name).state == LayerState::kAttaches);
  CHECK(layer(verdict, "profiler").state == LayerState::kUnused);
  CHECK(layer(verdict, "nccl").why == "linked (/opt/libnccl.so.2, version 2.23.4)");
}

TEST_CASE("what keeps the library out altogether is the reason of every layer") {
  const auto blocked = [](auto change) {
    Findings found = everything();
    change(found);
    const Verdict verdict = decide(found);
    CHECK(verdict.outcome == Outcome::kDoesNotLoad);
    for (const LayerVerdict& one : verdict.layers) {
      CHECK(one.state == LayerState::kNot);
      CHECK(one.why == verdict.layers[0].why);
    }
    return verdict.layers[0].why;
  };
  CHECK(blocked([](Findings& f) { f.libc = Libc::kNone; }).find("statically") != std::string::npos);
  CHECK(blocked([](Findings& f) { f.privileged = true; }).find("set-uid") != std::string::npos);
  CHECK(blocked([](Findings& f) { f.library = ""; }).find("--library") != std::string::npos);
  CHECK(blocked([](Findings& f) { f.library_fault = "for another machine"; }) == "for another machine");
  CHECK(blocked([](Findings& f) { f.disabled = true; }) == "ORRERY_DISABLE is set");
  CHECK(blocked([](Findings& f) { f.sanitized = true, f.sanitizer_first = false; }).find("libasan.so") !=
        std::string::npos);
}

TEST_CASE("without an agent the library loads and stays unattached, in the agent's words") {
  Findings found = everything();
  found.agent = {"/run/agent.sock", AgentState::kAbsent, 0, "/run/agent.sock: No such file or directory"};
  const Verdict verdict = decide(found);
  CHECK(verdict.outcome == Outcome::kNoAgent);
  CHECK(verdict.summary == "loads, but stays unattached: /run/agent.sock: No such file or directory");
  CHECK(layer(verdict, "nccl").state == LayerState::kAttaches);
}

TEST_CASE("NCCL is seen however it is reached, hidden copies by the profiler alone") {
  Findings found = everything();
  found.nccl.reach = NcclReach::kExported;
  CHECK(state(found, "nccl") == LayerState::kAttaches);
  found.nccl.reach = NcclReach::kOpened;
  CHECK(state(found, "nccl") == LayerState::kAttaches);
  found.nccl.reach = NcclReach::kNone;
  CHECK(state(found, "nccl") == LayerState::kUnused);
  CHECK(state(found, "profiler") == LayerState::kUnused);
  found.nccl.reach = NcclReach::kHidden;
  CHECK(state(found, "nccl") == LayerState::kNot);
  CHECK(state(found, "profiler") == LayerState::kNot);
  CHECK(decide(found).advice.back() == "to see the hidden NCCL: NCCL_PROFILER_PLUGIN=STATIC_PLUGIN");
  found.profiler_plugin = "STATIC_PLUGIN";
  found.profiler_is_ours = true;
  CHECK(state(found, "profiler") == LayerState::kAttaches);
  found.profiler_disabled = true;
  CHECK(state(found, "profiler") == LayerState::kNot);
}

TEST_CASE("the profiler stands in front of a plug-in of the user's, and needs NCCL 2.23") {
  Findings found = everything();
  found.profiler_plugin = "inspector";
  CHECK(layer(decide(found), "profiler").why == "in front of inspector");
  found.nccl.version = 22005;
  CHECK(layer(decide(found), "profiler").why == "NCCL has profiler plug-ins since 2.23");
  found.nccl.version = 0;
  CHECK(state(found, "profiler") == LayerState::kAttaches);
  found.nccl.has_profiler = false;
  CHECK(state(found, "profiler") == LayerState::kNot);
}

TEST_CASE("under musl what is linked is seen and what is opened is not") {
  Findings found = everything();
  found.libc = Libc::kMusl;
  CHECK(state(found, "nccl") == LayerState::kAttaches);
  CHECK(state(found, "dlsym") == LayerState::kNot);
  CHECK(state(found, "verbs") == LayerState::kNot);
  found.verbs = VerbsReach::kLinked;
  CHECK(state(found, "verbs") == LayerState::kAttaches);
  found.nccl.reach = NcclReach::kOpened;
  CHECK(state(found, "nccl") == LayerState::kNot);
}

TEST_CASE("verbs need a library, a device and somebody who uses them") {
  Findings found = everything();
  found.nccl.reach = NcclReach::kNone;
  CHECK(layer(decide(found), "verbs").why.starts_with("nothing here mentions libibverbs"));
  found.verbs = VerbsReach::kOpened;
  CHECK(state(found, "verbs") == LayerState::kAttaches);
  found.rdma_devices.clear();
  CHECK(layer(decide(found), "verbs").why.starts_with("no RDMA device"));
  found.verbs_library.clear();
  CHECK(layer(decide(found), "verbs").why == "no libibverbs.so.1 on this machine");
}

TEST_CASE("after a run, what attached is what counts") {
  Findings found = everything();
  found.nccl.reach = NcclReach::kNone;
  found.agent.state = AgentState::kAbsent;
  Trial trial{.ran = true};
  CHECK(decide(found, trial).outcome == Outcome::kDoesNotLoad);
  TrialProcess process{.pid = 7, .name = "train", .layers = ORRERY_LAYER_NCCL | ORRERY_LAYER_SOCKETS};
  process.collectives = 12;
  trial.processes = {process, process};
  const Verdict verdict = decide(found, trial);
  CHECK(verdict.outcome == Outcome::kAttaches);
  CHECK(layer(verdict, "nccl").why == "24 collectives seen");
  CHECK(layer(verdict, "sockets").state == LayerState::kUnused);
}

TEST_CASE("version codes of both schemes are read") {
  CHECK(nccl_version_text(2804) == "2.8.4");
  CHECK(nccl_version_text(22903) == "2.29.3");
}

TEST_CASE("options of the tool end where the program begins") {
  const auto options = parse_options({"--json", "--library=/a.so", "--agent-socket", "/s", "train", "--json", "-x"});
  REQUIRE(options);
  CHECK(options->json);
  CHECK_FALSE(options->run);
  CHECK(options->library == "/a.so");
  CHECK(options->agent_socket == "/s");
  CHECK(options->command == std::vector<std::string>{"train", "--json", "-x"});
  CHECK(parse_options({"--", "--odd"})->command == std::vector<std::string>{"--odd"});
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{}, {"--json"}, {"--librarie", "x"}, {"--library"}})
    CHECK_FALSE(parse_options(wrong));
}

TEST_CASE("the reference page holds the help text") {
  std::ifstream file(ORRERY_PRELOAD_CHECK_REFERENCE);
  std::stringstream page;
  page << file.rdbuf();
  CHECK(page.str().find("```text\n" + std::string(kHelp) + "```\n") != std::string::npos);
}

TEST_CASE("text and JSON say the same of a program") {
  const Findings found = everything();
  const Verdict verdict = decide(found);
  CHECK(to_text(found, {}, verdict).ends_with("result    attaches\n"));
  CHECK(to_json(found, {}, verdict).find("\"attaches\": true") != std::string::npos);
}

}  // namespace orrery::preload_check
