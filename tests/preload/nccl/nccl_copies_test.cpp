// Several copies of NCCL in one process: each call of the program reaches the copy that it reaches without the library,
// and no group is begun in one copy and used in another.
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>

#include "tests/preload/attached_probe.h"

namespace orrery {
namespace {

std::string path_of(const std::string& name) {
  return std::string(ORRERY_NCCL_DIRECTORY "/") + name;
}

std::vector<std::string> two_copies(const std::string& a, const std::string& b) {
  const auto with_path = [](const std::string& how_and_name) {
    const size_t colon = how_and_name.find(':');
    return how_and_name.substr(0, colon + 1) + path_of(how_and_name.substr(colon + 1));
  };
  return {path_of("two_copies"), with_path(a), with_path(b)};
}

// The library asks a communicator that was just split or shrunk who it is.
std::string without_questions(const std::string& output) {
  static const std::regex kQuestions(
      "[^\n]*: ncclCommCount (comm[0-9]+) level 0\n[^\n]*: ncclCommUserRank \\1 level 0\n");
  return std::regex_replace(output, kQuestions, "");
}

const std::pair<std::string, std::string> kTrace{"FAKE_NCCL_TRACE", "1"};

std::string traced(const std::vector<std::string>& command, bool preload, const std::string& disable = "") {
  const ProgramResult result =
      run_program(command, {.preload = preload, .environment = {kTrace, {"ORRERY_DISABLE", disable}}});
  CHECK(result.status == 0);
  CHECK(result.err == "");
  return result.out;
}

}  // namespace

TEST_CASE("each of two copies gets the calls it gets without the library, however it was loaded") {
  const auto [a, b, copies] = GENERATE(table<std::string, std::string, int>({
      {"dlsym:libnccl_2.18.so", "dlsym:libnccl_2.30.so", 2},
      {"dlsym:libnccl_rccl.so", "local:libframework_static_a.so", 2},
      {"local:libframework_static_a.so", "local:libframework_static_b.so", 2},
      {"global:libframework_static_a.so", "global:libframework_static_b.so", 1},
      {"local:libframework_needs_2.21.so", "local:libframework_needs_2.30.so", 2},
      {"global:libframework_needs_2.21.so", "global:libframework_needs_2.30.so", 1},
      {"local:libframework_needs_2.30.so", "local:libframework_static_b.so", 2},
      {"dlsym:libnccl_2.27.so", "dlsym:libnccl_2.27.so", 1},
  }));
  INFO(a << " and " << b);
  const auto command = two_copies(a, b);
  const std::string without = traced(command, false);
  CHECK(traced(command, true) == without);
  CHECK(traced(command, true, "1") == without);

  const std::string path = scratch_socket_path();
  fakes::FakeAgent agent(path, {});
  ProgramResult attached = AttachedProbe(agent, path, command, {kTrace}).finish();
  const size_t start = attached.out.find("versions");
  REQUIRE(start != std::string::npos);
  CHECK(attached.err == "");

  // What each communicator was used for, and in which group.
  std::map<uint64_t, std::vector<uint64_t>> bytes;
  std::map<uint64_t, std::set<uint32_t>> groups;
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_COLLECTIVE)) {
    bytes[event.collective.comm_id].push_back(event.collective.bytes);
    groups[event.collective.comm_id].insert(event.collective.group);
  }
  REQUIRE(bytes.size() == 2);
  std::set<std::vector<uint64_t>> uses;
  for (const auto& [comm, list] : bytes) uses.insert(list);
  CHECK(uses == std::set<std::vector<uint64_t>>{{4, 16, 16}, {8, 12, 20, 20}});
  std::multiset<uint32_t> calls_of_groups;
  for (const orrery_event& event : agent.events_of(ORRERY_EVENT_GROUP_END)) calls_of_groups.insert(event.group.calls);
  CHECK(calls_of_groups == (copies == 2 ? std::multiset<uint32_t>{1, 2} : std::multiset<uint32_t>{3}));
  CHECK(agent.events_of(ORRERY_EVENT_COMM_GONE).size() == 2);
}

TEST_CASE("where a program's build leads NCCL's own calls into another copy, they return to the copy that made them") {
  const std::string b = GENERATE("dlsym:libframework_static_b.so", "dlsym:libnccl_2.7.so");
  const auto command = two_copies("global:libframework_static_a.so", b);
  const std::string tag = b.find("static_b") != std::string::npos ? "b" : "2.7";
  // The send of the second copy opens a group of its own, within the program's: two levels, both of that copy.
  CHECK(traced(command, false).find(tag + ": ncclSend 0x0 2 7 1 comm0 0x0 level 1\n") != std::string::npos);
  const std::string with = traced(command, true);
  CHECK(with.find(tag + ": ncclSend 0x0 2 7 1 comm0 0x0 level 2\n") != std::string::npos);
  CHECK(with.find("a: ncclSend 0x0 1 7 1 comm0 0x0 level 2\n") != std::string::npos);
}

// pytorch#42517: one library holds all of a copy, another one holds the groups of a second copy and stands before it.
TEST_CASE("a library's groups are those of the copy that it contains, also where another library's precede them") {
  const auto command = two_copies("local:libframework_groups_only.so", "local:libframework_static_b.so");
  const std::string without = traced(command, false), with = traced(command, true);
  CHECK(without.find("b: ncclSend 0x0 2 7 1 comm0 0x0 level 0\n") != std::string::npos);
  CHECK(without.find("b: ncclGroupStart") == std::string::npos);
  CHECK(with.find("b: ncclSend 0x0 2 7 1 comm0 0x0 level 2\n") != std::string::npos);
  CHECK(with.find("end 5") == std::string::npos);
}

TEST_CASE("more copies than the library tells apart are called all the same") {
  std::vector<std::string> command{path_of("two_copies")};
  for (const char* tag : {"2.7", "2.18", "2.21", "2.27", "2.30", "rccl", "2.7"})
    command.push_back("dlsym:" + path_of("libnccl_" + std::string(tag) + ".so"));
  command.push_back("local:" + path_of("libframework_static_a.so"));
  command.push_back("local:" + path_of("libframework_static_b.so"));
  CHECK(traced(command, true) == traced(command, false));
}

TEST_CASE("a library that brings its copy along may be closed and another be opened in its place") {
  const std::vector<std::string> command{path_of("reloading"), path_of("libframework_static_a.so"),
                                         path_of("libframework_needs_2.30.so")};
  // A copy that was bound to stays, and so does the number of communicators that it has made.
  const auto without_numbers = [](const std::string& output) {
    return std::regex_replace(output, std::regex("comm[0-9]+"), "comm");
  };
  CHECK(without_numbers(traced(command, true)) == without_numbers(traced(command, false)));
}

TEST_CASE("another interposer, before or behind the library, gets every call that it gets without it") {
  const std::string interposer = path_of("libnccl_interposer.so");
  const std::string order = GENERATE_COPY(preload_path() + ":" + interposer, interposer + ":" + preload_path());
  const std::vector<std::string> command{path_of("every_function_2.30")};
  const auto output = [&](const std::string& preload) {
    const ProgramResult result =
        run_program(command, {.preload = false, .environment = {kTrace, {"LD_PRELOAD", preload}}});
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string without = output(interposer);
  CHECK(without.find("interposed ncclAllReduce\n") != std::string::npos);
  CHECK(without_questions(output(order)) == without);
}

}  // namespace orrery
