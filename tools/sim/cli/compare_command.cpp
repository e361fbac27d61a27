// orrery-sim compare A B: two result documents, scheme by scheme.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "tools/ctl/table.h"
#include "tools/sim/cli/document.h"

namespace orrery::sim {
namespace {

using ctl::Align;
using nlohmann::json;

constexpr const char* kFigures[] = {"mean_ms", "p99_ms", "worst_ms", "iterations_per_s", "slowdown"};
constexpr const char* kCounts[] = {"drops", "retransmits", "pauses", "unfinished"};

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

// What may make results differ, as far as they tell.
constexpr std::pair<const char*, const char*> kCauses[] = {{"fabric", "switches"},
                                                           {"fabric", "hosts"},
                                                           {"fabric", "nic_rate_bps"},
                                                           {"settings", "engine"},
                                                           {"settings", "seeds"},
                                                           {"settings", "connections"},
                                                           {"settings", "placement"},
                                                           {"settings", "pfc"},
                                                           {"settings", "ecn"},
                                                           {"settings", "dcqcn"},
                                                           {"settings", "telemetry_every"},
                                                           {"settings", "clock_error_ns"}};

json differences(const json& a, const json& b) {
  json list = json::array();
  const auto add = [&](const char* what, const json& x, const json& y) {
    if (x != y) list.push_back({{"what", what}, {"a", x}, {"b", y}});
  };
  const auto at = [](const json& document, const char* part, const char* key) {
    return document.value(part, json::object()).value(key, json());
  };
  for (const auto& [part, key] : kCauses) add(key, at(a, part, key), at(b, part, key));
  add("jobs", a.value("jobs", json()), b.value("jobs", json()));
  return list;
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
  const json print = a.value("fingerprint", json());
  const auto left = [](const json& document) {
    const auto total = document.value("runs_total", uint64_t{0});
    return total - std::min(total, document.value("runs_done", uint64_t{0}));
  };
  return {{"schema", 1},
          {"a", a.value("title", "")},
          {"b", b.value("title", "")},
          {"same_study", !print.is_null() && print == b.value("fingerprint", json())},
          {"differences", differences(a, b)},
          {"runs_left", {{"a", left(a)}, {"b", left(b)}}},
          {"schemes", schemes}};
}

// "1 to 5", "16 jobs", "on": short enough for a table.
std::string shown(const json& value) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_number_unsigned() && value.get<uint64_t>() >= 1'000'000) return ctl::human_rate(value.get<uint64_t>());
  if (!value.is_array()) return value.is_string() ? value.get<std::string>() : value.dump();
  if (value.size() > 2 && value.front().is_number_unsigned() && value.back().is_number_unsigned() &&
      value.back().get<uint64_t>() - value.front().get<uint64_t>() == value.size() - 1)
    return fmt::format("{} to {}", value.front().get<uint64_t>(), value.back().get<uint64_t>());
  std::string text;
  for (const json& item : value) text += (text.empty() ? "" : ", ") + shown(item);
  return text.size() <= 40 ? text : fmt::format("{} of them", value.size());
}

std::string differences_text(const json& comparison, bool colour) {
  if (comparison["differences"].empty())
    return comparison["same_study"].get<bool>()
               ? "The same study: fabric, jobs, model and seeds are equal.\n"
               : "Jobs, model or version of orrery-sim differ in what results do not tell.\n";
  ctl::Table table({{"DIFFERENT"}, {"A"}, {"B"}});
  for (const json& one : comparison["differences"])
    table.add_row({one["what"].get<std::string>(), shown(one["a"]), shown(one["b"])});
  std::string text = table.to_string(colour);
  if (comparison["same_study"].get<bool>()) text += "Fabric, jobs and model are equal: what differs is luck.\n";
  return text;
}

std::string warnings(const json& comparison, bool colour) {
  std::string text;
  for (const auto& [side, name] : {std::pair{"a", "A"}, {"b", "B"}}) {
    double unfinished = 0;
    for (const json& row : comparison["schemes"]) unfinished += row["unfinished"][side].get<double>();
    const auto left = comparison["runs_left"][side].get<uint64_t>();
    if (left > 0) text += fmt::format("WARNING: {} is not finished; {} runs are left.\n", name, left);
    if (unfinished > 0)
      text += fmt::format("WARNING: {:.0f} iterations of {} did not end and are in no figure.\n", unfinished, name);
  }
  return text.empty() ? text : ctl::toned(text, ctl::Tone::kBad, colour);
}

std::string compare_text(const json& comparison, bool colour) {
  ctl::Table table({{"SCHEME"},
                    {"MEAN A", Align::kRight},
                    {"MEAN B", Align::kRight},
                    {"B / A", Align::kRight},
                    {"P99 A", Align::kRight},
                    {"P99 B", Align::kRight},
                    {"B / A", Align::kRight},
                    {"x IDEAL A", Align::kRight},
                    {"x IDEAL B", Align::kRight},
                    {"DROPS A", Align::kRight},
                    {"DROPS B", Align::kRight}});
  for (const json& row : comparison["schemes"]) {
    const auto ms = [&](const char* key, const char* side) {
      return row[key][side] > 0 ? fmt::format("{:.3f}", row[key][side].get<double>()) : "-";
    };
    const auto ratio = [&](const char* key) {
      return row[key]["ratio"].is_number() ? fmt::format("{:.3f}", row[key]["ratio"].get<double>()) : "-";
    };
    const auto drops = [&](const char* side) {
      return row[side[0] == 'a' ? "in_a" : "in_b"].get<bool>() ? fmt::format("{:.0f}", row["drops"][side].get<double>())
                                                               : "-";
    };
    table.add_row({row["scheme"].get<std::string>(), ms("mean_ms", "a"), ms("mean_ms", "b"), ratio("mean_ms"),
                   ms("p99_ms", "a"), ms("p99_ms", "b"), ratio("p99_ms"), ms("slowdown", "a"), ms("slowdown", "b"),
                   drops("a"), drops("b")});
  }
  return fmt::format(
      "A: {}\nB: {}\n\n{}\n{}\n{}Times are milliseconds; B / A below 1: faster in B. x IDEAL: mean beside that of the "
      "result's own fabric if it never blocked; -: not in that result.\n",
      comparison["a"].get<std::string>(), comparison["b"].get<std::string>(), differences_text(comparison, colour),
      table.to_string(colour), warnings(comparison, colour));
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
