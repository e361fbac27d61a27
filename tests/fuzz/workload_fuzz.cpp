// Mutates good files of every format that the simulator reads, and scenario files, with a fixed seed. Whatever the
// bytes, a reader answers with a workload that keeps its promises, or with an error that names the file; it neither
// crashes nor hangs nor takes more than it was allowed.
// ORRERY_FUZZ_ITERATIONS and ORRERY_FUZZ_SEED change the length and the place.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <random>

#include "tests/unit/sim/workload_samples.h"
#include "tools/sim/scenario/scenario.h"

namespace orrery::sim {
namespace {

constexpr std::string_view kTokens[] = {"0",          "-1",   "1e308",      "nan",         "18446744073709551616",
                                        "4294967295", ",",    "\n",         "\t",          ":",
                                        "{",          "}",    "[",          "]",           "\"",
                                        "\\",         "#",    "None",       "NONE",        "->",
                                        "\xff",       "\x80", "all_reduce", "ALLTOALL_EP", "trigger 1",
                                        "barrier",    " ",    "epoch_end",  "count",       "rank0 ~ rank4194303]"};

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void mutate(std::string& text) {
    if (below(3) == 0) return change_digit(text);  // the file often stays good, or is nearly so
    for (size_t i = 1 + below(4); i > 0 && !text.empty(); --i) mutate_once(text);
  }

 private:
  void change_digit(std::string& text) {
    std::vector<size_t> digits;
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] >= '0' && text[i] <= '9') digits.push_back(i);
    if (!digits.empty()) text[digits[below(digits.size())]] = static_cast<char>('0' + below(10));
  }

  void mutate_once(std::string& text) {
    const size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(40));
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(random_());
        return;
      case 1:
        text.erase(at, length);
        return;
      case 2:
        text.insert(at, text.substr(below(text.size()), length));
        return;
      case 3: {
        const std::string_view token = kTokens[below(std::size(kTokens))];
        text.insert(at, token);
        return;
      }
      case 4:
        text.resize(at);
        return;
      case 5: {
        const size_t line = text.rfind('\n', at) + 1, end = std::min(text.find('\n', at), text.size());
        for (size_t i = below(5); i > 0; --i) text.insert(line, text.substr(line, end - line) + "\n");
        return;
      }
      default:
        text[at] ^= static_cast<char>(1u << below(8));
    }
  }

  std::mt19937_64 random_;
};

std::vector<uint32_t> in_order(uint32_t hosts) {
  std::vector<uint32_t> order(hosts);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

// A workload that was taken can be built, with no more than it said, and is sound.
void check_workload(const Workload& workload, const ReadOptions& options) {
  CHECK(workload.fixed.tasks.size() <= 2 * options.max_tasks);
  if (tasks_of(workload) > 2 * options.max_tasks) return;
  const auto traffic = traffic_of(workload, in_order(workload.hosts));
  if (!traffic) {
    CHECK_FALSE(traffic.error().message.empty());
    return;
  }
  CHECK(traffic->tasks.size() <= tasks_of(workload));
  const Status sound = check(*traffic, workload.hosts);
  INFO((sound ? "" : sound.error().message));
  CHECK(sound);
}

bool is_small(const std::vector<Job>& jobs, uint64_t most) {
  return std::all_of(jobs.begin(), jobs.end(), [&](const Job& job) { return tasks_of(job) <= most; });
}

}  // namespace

TEST_CASE("mutated workloads are taken or refused, and taken ones are sound") {
  Mutator mutator(setting("ORRERY_FUZZ_SEED", 1));
  ReadOptions options;
  options.max_tasks = 20'000;
  size_t taken = 0, refused = 0;
  for (uint64_t i = setting("ORRERY_FUZZ_ITERATIONS", 6'000); i > 0; --i) {
    auto [format, inputs] = samples::all()[i % 6];
    options.ranks = format == Format::kSimai ? 4 : 0;
    mutator.mutate(inputs[mutator.below(inputs.size())].text);
    const auto workload = read_workload(format, inputs, options);
    CAPTURE(i, name_of(format));
    if (workload) {
      ++taken;
      check_workload(*workload, options);
    } else {
      ++refused;
      CHECK_FALSE(workload.error().message.empty());
      CHECK(workload.error().message.find(inputs[0].name.substr(0, 1)) != std::string::npos);
    }
  }
  CHECK(taken > 0);
  CHECK(refused > 0);
}

TEST_CASE("mutated scenarios are taken or refused, and taken ones become traffic or an error") {
  Mutator mutator(setting("ORRERY_FUZZ_SEED", 1));
  constexpr uint64_t kTasks = 20'000;
  size_t taken = 0, refused = 0;
  for (uint64_t i = setting("ORRERY_FUZZ_ITERATIONS", 6'000) / 4; i > 0; --i) {
    std::string text = samples::kScenario;
    mutator.mutate(text);
    const auto scenario = parse_scenario(text, "s.yaml");
    CAPTURE(i, text);
    if (!scenario) {
      ++refused;
      CHECK(scenario.error().message.find("s.yaml") != std::string::npos);
      continue;
    }
    ++taken;
    if (scenario->workload || (scenario->leaf_spine && scenario->leaf_spine->hosts > 1'000)) continue;
    const auto graph = graph_of(*scenario);
    if (!graph) continue;
    const auto placed = placed_jobs(*scenario, *graph, kTasks);
    if (placed && !is_small(placed->jobs, kTasks)) continue;
    const auto traffic = placed ? traffic_of(*scenario, *placed) : placed.error();
    if (traffic)
      CHECK(check(*traffic, static_cast<uint32_t>(graph->nics().size())));
    else
      CHECK(traffic.error().message.find("s.yaml") != std::string::npos);
  }
  CHECK(taken > 0);
  CHECK(refused > 0);
}

}  // namespace orrery::sim
