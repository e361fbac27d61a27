// orrery-preload-check on real programs of every kind, with and without an agent.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/fakes/fake_agent.h"
#include "tests/preload/run_program.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Environment = std::vector<std::pair<std::string, std::string>>;

const std::string kPortability = ORRERY_PORTABILITY_DIRECTORY;
const std::string kSurroundings = ORRERY_SURROUNDINGS_DIRECTORY;

ProgramResult check(std::vector<std::string> arguments, const Environment& environment = {},
                    const std::string& agent = "/nonexistent/orrery/agent.sock") {
  arguments.insert(arguments.begin(), ORRERY_PRELOAD_CHECK);
  return run_program(arguments, {.preload = false, .agent_socket = agent, .environment = environment});
}

json check_json(std::vector<std::string> arguments, const Environment& environment = {},
                const std::string& agent = "/nonexistent/orrery/agent.sock") {
  arguments.insert(arguments.begin(), "--json");
  const ProgramResult result = check(arguments, environment, agent);
  INFO(result.out << result.err);
  const json answer = json::parse(result.out);
  CHECK((result.status == 0) == answer["attaches"].get<bool>());
  return answer;
}

json layer(const json& answer, const std::string& name) {
  for (const json& one : answer["layers"])
    if (one["name"] == name) return one;
  return {};
}

}  // namespace

TEST_CASE("a program that links NCCL attaches to an agent that answers") {
  const std::string path = scratch_socket_path();
  fakes::FakeAgent agent(path, {});
  const json answer = check_json({probe_path()}, {}, path);
  CHECK(answer["attaches"] == true);
  CHECK(answer["agent"]["abi_version"] == ORRERY_ABI_VERSION);
  CHECK(answer["nccl"]["reach"] == "linked");
  CHECK(answer["nccl"]["version"] == 21806);
  CHECK(layer(answer, "nccl")["state"] == "yes");
  CHECK(agent.attachments() == 1);
}

TEST_CASE("an agent that is absent, refuses, or is none is told apart") {
  CHECK(check({probe_path()}).status == 3);
  CHECK(check_json({probe_path()})["agent"]["state"] == "absent");
  const std::string path = scratch_socket_path();
  fakes::FakeAgent agent(path, {.status = ORRERY_ATTACH_FULL});
  CHECK(check_json({probe_path()}, {}, path)["agent"]["state"] == "refuses");
  CHECK(check({"--agent-socket", std::string(200, 'x'), probe_path()}).status == 3);
}

TEST_CASE("a program that opens NCCL by name is seen through dlsym") {
  const json answer = check_json({kPortability + "/opened"});
  CHECK(answer["nccl"]["reach"] == "opened");
  CHECK(layer(answer, "nccl")["state"] == "yes");
}

TEST_CASE("a hidden NCCL is for the profiler") {
  const json answer = check_json({kSurroundings + "/hidden_program"});
  CHECK(answer["nccl"]["reach"] == "hidden");
  CHECK(layer(answer, "nccl")["state"] == "no");
  CHECK(layer(answer, "profiler")["state"] == "no");
  const json asked = check_json({kSurroundings + "/hidden_program"}, {{"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"}});
  CHECK(layer(asked, "profiler")["state"] == "yes");
}

TEST_CASE("static programs, the kill switch and a library of another kind have their reasons") {
  CHECK(check({kSurroundings + "/static_program"}).status == 1);
  CHECK(check_json({kSurroundings + "/static_program"})["libc"] == "static");
  CHECK(check_json({probe_path()}, {{"ORRERY_DISABLE", "1"}})["result"] == "does not attach: ORRERY_DISABLE is set");
  CHECK(check({"--library", "/etc/passwd", probe_path()}).status == 1);
  CHECK(check({"--library", "/nonexistent.so", probe_path()}).status == 1);
}

TEST_CASE("a program with the address sanitizer wants the sanitizer's library first") {
  const std::string program = kSurroundings + "/sanitized_probe";
  CHECK(check({program}).status == 1);
  CHECK(check({program}, {{"LD_PRELOAD", std::string(ORRERY_ASAN_LIBRARY) + ":" + preload_path()},
                          {"ASAN_OPTIONS", "detect_leaks=0"}})
            .status == 3);
}

TEST_CASE("a script is its interpreter's") {
  const fs::path script = fs::path(scratch_socket_path()).replace_filename("train.sh");
  std::ofstream(script) << "#!/usr/bin/env -S bash\necho trained\n";
  REQUIRE(chmod(script.c_str(), 0755) == 0);
  const json answer = check_json({script});
  CHECK(answer["script"] == script.string());
  CHECK(answer["program"].get<std::string>().ends_with("/bash"));
}

TEST_CASE("what cannot be inspected is said") {
  CHECK(check({"/nonexistent/program"}).status == 2);
  CHECK(check({"no-such-program-anywhere"}).err == "orrery-preload-check: no-such-program-anywhere: no such program\n");
  CHECK(check({"/etc/passwd"}).err == "orrery-preload-check: /etc/passwd: not executable\n");
  CHECK(check({}).status == 2);
}

TEST_CASE("a library that is missing is named") {
  const std::string program = kSurroundings + "/program_without_library";
  const json answer = check_json({program});
  CHECK(answer["missing_libraries"] == json{"liborrery_test_absent.so"});
  CHECK(check_json({program}, {{"LD_LIBRARY_PATH", kSurroundings + "/absent"}})["missing_libraries"].empty());
}

TEST_CASE("NCCL is found where the program's loader looks for it") {
  const json answer = check_json({kPortability + "/linked"}, {{"LD_LIBRARY_PATH", kPortability}});
  CHECK(answer["nccl"]["path"] == kPortability + "/libnccl.so.2");
  CHECK(answer["nccl"]["version"] == 21903);
}

TEST_CASE("a run says what the program told, and passes its output to standard error") {
  const ProgramResult result = check({"--run", probe_path(), "nccl-tour"});
  CHECK(result.status == 0);
  CHECK(result.out.find(" collectives seen\n") != std::string::npos);
  CHECK(result.out.find("ended     with status 0\n") != std::string::npos);
  CHECK(result.err.starts_with("all_reduce 0\n"));
  const json answer = check_json({"--run", probe_path(), "many-comms"});
  CHECK(answer["run"]["processes"].size() == 1);
  CHECK(answer["run"]["processes"][0]["communicators"] > 5);
}

TEST_CASE("a run of a program that nothing concerns never attaches, and its end is told") {
  CHECK(check({"--run", "/bin/true"}).status == 1);
  CHECK(check_json({"--run", "/bin/sh", "-c", "exit 7"})["run"]["exit_status"] == 7);
  CHECK(check_json({"--run", "/bin/sh", "-c", "kill -9 $$"})["run"]["exit_status"] == 137);
}

#ifdef ORRERY_MUSL
TEST_CASE("a program of musl has no dlsym layer") {
  const json answer = check_json({kPortability + "/musl/linked"}, {{"LD_LIBRARY_PATH", kPortability + "/musl"}});
  CHECK(answer["libc"] == "musl");
  CHECK(layer(answer, "nccl")["state"] == "yes");
  CHECK(layer(answer, "dlsym")["state"] == "no");
}
#endif

TEST_CASE("a program with more rights than its user is left alone", "[root]") {
  const fs::path program = fs::path(scratch_socket_path()).replace_filename("setuid_id");
  fs::copy_file("/usr/bin/id", program);
  REQUIRE(chown(program.c_str(), 65534, 65534) == 0);
  REQUIRE(chmod(program.c_str(), 04755) == 0);
  const json answer = check_json({program});
  CHECK(answer["privileged"] == true);
  CHECK(layer(answer, "sockets")["state"] == "no");
}

}  // namespace orrery
