// What a study says that it needs, beside what it takes: in a process of its own, by the kernel's account.
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <sstream>

#include "tools/sim/cli/cli.h"
#include "tools/sim/runner/memory.h"

namespace orrery::sim {
namespace {

using Words = std::vector<std::string>;

struct Outcome {
  int code = 0;
  std::string err;
};

Outcome refusal(Words words, double gib) {
  words.insert(words.begin(), "run");
  words.insert(words.end(), {"--memory-gib", std::to_string(gib)});
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const int code = run(words, console);
  return {code, err.str()};
}

// What stands behind "needs"; 0: it was not refused.
double told_mib(const std::string& message) {
  size_t at = message.find("needs ");
  if (at == std::string::npos) return 0;
  at += 6;
  if (message.compare(at, 9, "at least ") == 0) at += 9;
  std::istringstream text(message.substr(at));
  double number = 0;
  std::string unit;
  text >> number >> unit;
  return unit.starts_with("GiB") ? 1024 * number : number;
}

// It is asked for in steps: the fabric, the jobs, and what plans make of them.
double needed_mib(const Words& words) {
  double needed = 0;
  for (double told = told_mib(refusal(words, 1e-6).err); told != 0;
       told = told_mib(refusal(words, needed * 1.02 / 1024).err))
    needed = told;
  return needed;
}

// Most that the process `id` has had of the image it runs now.
double high_water_mib(pid_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

// It is stopped when it is about to end: what wait4() tells counts this program too, which it was before exec.
double taken_mib(Words words) {
  words.insert(words.begin(), {ORRERY_SIM, "run"});
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execv(ORRERY_SIM, arguments.data());
    _exit(127);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSTOPPED(status));
  REQUIRE(ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL) == 0);
  REQUIRE(ptrace(PTRACE_CONT, child, nullptr, nullptr) == 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8));
  const double taken = high_water_mib(child);
  REQUIRE(ptrace(PTRACE_CONT, child, nullptr, nullptr) == 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return taken;
}

Words words_of(const std::string& line) {
  std::istringstream text(line);
  Words words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

// The number behind `option` in a message; 0: it is not offered.
uint64_t offered(const std::string& message, const std::string& option) {
  const size_t at = message.find(option + " ");
  return at == std::string::npos ? 0 : std::stoull(message.substr(at + option.size() + 1));
}

}  // namespace

TEST_CASE("a study takes no more memory than it said, and no less than half") {
  const std::string line =
      GENERATE(as<std::string>(), "--leaves 16 --spines 16 --hosts 256 --ring-steps 64 --rounds 2 --scheme orrery",
               "--leaves 8 --spines 8 --hosts 64 --rounds 10 --scheme ecmp-multi",
               "--leaves 8 --spines 8 --hosts 192 --collective all-to-all --rounds 1 --scheme ecmp",
               "--leaves 8 --spines 8 --hosts 192 --collective all-to-all --rounds 1 --scheme spray",
               "--leaves 8 --spines 7 --hosts 256 --ring-steps 16 --rounds 1 --scheme orrery",
               "--leaves 16 --spines 16 --hosts 64 --ranks-per-host 8 --ring-steps 64 --scheme ecmp");
  Words words = words_of(line + " --bytes 4M --seeds 1 --no-ideal --engine fluid");
  const double needed = needed_mib(words), taken = taken_mib(words);
  CAPTURE(line, needed, taken);
  CHECK(taken <= needed);
  CHECK(2 * taken >= needed);
}

TEST_CASE("packets too: what 128 NICs send into each other is within what was said") {
  Words words = words_of(
      "--leaves 8 --spines 8 --hosts 128 --collective send-recv --bytes 4M --rounds 1 --seeds 1 --scheme spray "
      "--parallel 1");
  CHECK(taken_mib(words) <= needed_mib(words));
}

TEST_CASE("every cure that is offered fits, and a little more does not") {
  const Words words = words_of("--leaves 8 --spines 8 --hosts 64 --rounds 50 --seeds 1 --scheme ecmp-multi --no-ideal");
  constexpr double kGib = 0.08;
  const std::string told = refusal(words, kGib).err;
  INFO(told);
  CHECK(told.find(", have 81.9 MiB: use ") != std::string::npos);
  CHECK(told.find("; or allow more (--memory-gib ") != std::string::npos);
  for (const std::string option : {"--rounds", "--ring-steps"}) {
    const uint64_t number = offered(told, option);
    CAPTURE(option, number);
    REQUIRE(number > 0);
    Words changed = words;
    changed.insert(changed.end(), {option, std::to_string(number + 1)});
    if (option == "--rounds")
      changed.erase(std::find(changed.begin(), changed.end(), "--rounds"),
                    std::find(changed.begin(), changed.end(), "--seeds"));
    CHECK(refusal(changed, kGib).code == kFailed);
    changed.back() = std::to_string(number);
    changed.insert(changed.end(), {"--engine", "fluid", "--bytes", "64k"});
    CHECK(refusal(changed, kGib).code == kOk);
  }
}

TEST_CASE("a study that fits in no way is told to take fewer hosts, and a fabric before it is made") {
  const std::string crowded =
      refusal(words_of("--leaves 64 --spines 64 --hosts 4096 --collective all-to-all"), 0.1).err;
  CHECK(crowded.find("use fewer hosts or ranks; or allow more") != std::string::npos);
  const std::string fabric = refusal(words_of("--leaves 1024 --spines 512 --hosts 32768"), 0.1).err;
  CHECK(fabric.find("options: needs ") != std::string::npos);
  CHECK(fabric.find("use fewer hosts, leaves or spines") != std::string::npos);
  CHECK(available_memory() > 0);
}

TEST_CASE("what plans may add is told before it is known") {
  // Eight flows of a leaf on seven spines: they are split.
  const Words words = words_of(
      "--leaves 8 --spines 7 --hosts 64 --ring-steps 64 --rounds 4 --seeds 1 --scheme orrery --no-ideal "
      "--engine fluid --bytes 4M");
  const std::string first = refusal(words, 0.013).err, second = refusal(words, 0.018).err;
  INFO(first << second);
  CHECK(first.find("needs at least ") != std::string::npos);
  CHECK(second.find("needs ") != std::string::npos);
  CHECK(second.find("at least") == std::string::npos);
  CHECK(told_mib(second) > told_mib(first));
}

}  // namespace orrery::sim
