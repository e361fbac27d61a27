// Every public function of NCCL from 2.7 to 2.30 and of RCCL: called with the library, each ends in the same function
// of NCCL with the same arguments and gives the same answer as without it.
#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

#include "tests/preload/run_program.h"

namespace orrery {
namespace {

std::string path_of(const std::string& name) {
  return std::string(ORRERY_NCCL_DIRECTORY "/") + name;
}

std::string output_of(const std::vector<std::string>& command, bool preload, bool disabled = false) {
  ProgramOptions options{.preload = preload};
  options.environment = {{"FAKE_NCCL_TRACE", "1"}};
  if (disabled) options.environment.emplace_back("ORRERY_DISABLE", "1");
  const ProgramResult result = run_program(command, options);
  CHECK(result.status == 0);
  CHECK(result.err == "");
  return result.out;
}

// The library asks a communicator that was just split or shrunk who it is.
std::string without_questions(const std::string& output) {
  static const std::regex kQuestions(
      "[^\n]*: ncclCommCount (comm[0-9]+) level 0\n[^\n]*: ncclCommUserRank \\1 level 0\n");
  return std::regex_replace(output, kQuestions, "");
}

// Lines that tell what a call of the program's came back with.
int calls_in(const std::string& output) {
  std::istringstream lines(output);
  int calls = 0;
  for (std::string line; std::getline(lines, line);)
    calls += line.rfind("  = ", 0) == 0 || line.rfind(" comm ", 0) == 0;
  return calls;
}

}  // namespace

TEST_CASE("every function of every version is forwarded with its arguments and its answer") {
  const auto [tag, functions] = GENERATE(table<std::string, int>(
      {{"2.7", 21}, {"2.18", 27}, {"2.21", 31}, {"2.27", 37}, {"2.30", 50 + 2}, {"rccl", 31 + 5}}));
  const std::string answer = GENERATE("0", "3", "7");
  INFO(tag << ", answer " << answer);
  const std::vector<std::string> command{path_of("every_function_" + tag), answer};
  const std::string without = output_of(command, false);
  CHECK(calls_in(without) == functions);
  CHECK(without_questions(output_of(command, true)) == without);
  CHECK(output_of(command, true, true) == without);
}

TEST_CASE("a config of any version's size is handed through unread beyond its end and unchanged") {
  const std::vector<std::string> command{path_of("communicators_2.30"), "every-config"};
  const std::string without = output_of(command, false);
  CHECK(without.find("2.30: config 104 ") != std::string::npos);
  CHECK(without_questions(output_of(command, true)) == without);
}

TEST_CASE("without NCCL its functions refuse, once it is there they work, and what it lacks is refused") {
  const ProgramResult result = run_program({path_of("unlinked"), path_of("libnccl_2.18.so")});
  CHECK(result.status == 0);
  CHECK(result.out ==
        "version 5 0\n"
        "start 5 5\n"
        "error no NCCL library is loaded\n"
        "version 0 21806\n"
        "error fake error of 2.18\n"
        "grow 5\n");
  CHECK(result.err ==
        "orrery: no NCCL or RCCL library that has this function is loaded, so it returns ncclInvalidUsage: "
        "ncclGroupStart\n");
}

}  // namespace orrery
