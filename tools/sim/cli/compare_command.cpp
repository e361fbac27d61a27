// orrery-sim compare A B: two result documents, scheme by scheme.
#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "tools/ctl/table.h"
#include "tools/sim/cli/document.h"

namespace orrery::sim {
namespace {

using ctl::Align;
using nlohmann::json;

constexpr const char* kFigures[] = {"mean_ms", "p99_ms", "worst_ms", "iterations_per_s", "slowdown"};
constexpr const char* kCounts[] = {"drops", "retransmits", "pauses"};

struct Pair {
  std::string scheme;
  const json* a = nullptr;
  const json* b = nullptr;
};

// Schemes of either, in the order of A, then those that only B has.
std::vector<Pair> pairs_of(const json& a, const json& b) {
  std::vector<Pair> pairs;
  for (const json& scheme : a["schemes"]) pairs.push_back({scheme.value("scheme", "?"), &scheme, nullptr});
  for (const json& scheme : b["schemes"]) {
    const std::string name = scheme.value("scheme", "?");
    const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return p.scheme == name; });
    if (found != pairs.end())
      found->b = &scheme;
    else
      pairs.push_back({name, nullptr, &scheme});
  }
  return pairs;
}

double number(const json* scheme, const char* key) {
  return scheme != nullptr && scheme->contains(key) && (*scheme)[key].is_number() ? (*scheme)[key].get<double>() : 0;
}

json compare(const json& a, const json& b) {
  json schemes = json::array();
  for (const Pair& pair : pairs_of(a, b)) {
    json row{{"scheme", pair.scheme}, {"in_a", pair.a != nullptr}, {"in_b", pair.b != nullptr}};
    for (const char* key : kFigures) {
      const double x = number(pair.a, key), y = number(pair.b, key);
      row[key] = {{"a", x}, {"b", y}, {"ratio", x > 0 && y > 0 ? json(y / x) : json()}};
    }
    for (const char* key : kCounts) row[key] = {{"a", number(pair.a, key)}, {"b", number(pair.b, key)}};
    schemes.push_back(std::move(row));
  }
  return {{"schema", 1}, {"a", a.value("title", "")}, {"b", b.value("title", "")}, {"schemes", schemes}};
}

std::string compare_text(const json& comparison, bool colour) {
  ctl::Table table({{"SCHEME"},
                    {"MEAN A", Align::kRight},
                    {"MEAN B", Align::kRight},
                    {"B / A", Align::kRight},
                    {"P99 A", Align::kRight},
                    {"P99 B", Align::kRight},
                    {"B / A", Align::kRight},
                    {"DROPS A", Align::kRight},
                    {"DROPS B", Align::kRight}});
  for (const json& row : comparison["schemes"]) {
    const auto ms = [&](const char* key, const char* side) {
      return row[key][side] > 0 ? fmt::format("{:.3f}", row[key][side].get<double>()) : "-";
    };
    const auto ratio = [&](const char* key) {
      return row[key]["ratio"].is_number() ? fmt::format("{:.3f}", row[key]["ratio"].get<double>()) : "-";
    };
    table.add_row({row["scheme"].get<std::string>(), ms("mean_ms", "a"), ms("mean_ms", "b"), ratio("mean_ms"),
                   ms("p99_ms", "a"), ms("p99_ms", "b"), ratio("p99_ms"),
                   fmt::format("{:.0f}", row["drops"]["a"].get<double>()),
                   fmt::format("{:.0f}", row["drops"]["b"].get<double>())});
  }
  return fmt::format("A: {}\nB: {}\n\n{}\nTimes are milliseconds; below 1 is faster in B.\n",
                     comparison["a"].get<std::string>(), comparison["b"].get<std::string>(), table.to_string(colour));
}

int compare_files(Console& console, const std::string& a, const std::string& b, bool as_json) {
  const auto first = load_document(a);
  if (!first) return report(console, first.error());
  const auto second = load_document(b);
  if (!second) return report(console, second.error());
  json comparison;
  if (const auto read = reading(a + " or " + b, [&] { comparison = compare(*first, *second); }); !read)
    return report(console, read.error());
  console.out << (as_json ? comparison.dump(1) + "\n" : compare_text(comparison, console.colour));
  return kOk;
}

}  // namespace

void add_compare_command(CLI::App& app, Console& console, std::function<int()>& action) {
  struct Options {
    std::string a, b;
    bool json = false;
  };
  CLI::App* command = app.add_subcommand("compare", "Compare two results, scheme by scheme");
  auto options = std::make_shared<Options>();
  command->add_option("A", options->a, "What `run --json` printed")->required();
  command->add_option("B", options->b, "The same of another run")->required();
  command->add_flag("--json", options->json, "Print JSON for programs");
  command->callback([&console, &action, options] {
    action = [&console, options] { return compare_files(console, options->a, options->b, options->json); };
  });
}

}  // namespace orrery::sim
