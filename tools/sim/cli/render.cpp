// The result document as people read it.
#include <fmt/format.h>

#include "tools/ctl/table.h"
#include "tools/sim/cli/document.h"

namespace orrery::sim {
namespace {

using ctl::Align;
using ctl::Table;
using nlohmann::json;

// No time is 0: then no iteration has ended.
std::string milliseconds(const json& value) {
  const double ms = value.is_number() ? value.get<double>() : 0;
  if (ms <= 0) return "-";
  return fmt::format("{:.{}f}", ms, ms >= 100 ? 1 : ms >= 1 ? 3 : 4);
}

std::string percent(const json& value) {
  return value.is_number() ? fmt::format("{:.1f} %", 100 * value.get<double>()) : "-";
}

std::string times(const json& value) {
  return value.is_number() && value.get<double>() > 0 ? fmt::format("{:.3f}", value.get<double>()) : "-";
}

std::string count(const json& scheme, const char* key) {
  return ctl::human_count(scheme.value(key, uint64_t{0}));
}

const json* find(const json& document, const char* name) {
  for (const json& scheme : document["schemes"])
    if (scheme.value("scheme", "") == name) return &scheme;
  return nullptr;
}

// Where several jobs share the fabric.
std::string job_text(const json& document, bool colour) {
  constexpr size_t kMostJobs = 32;
  const std::vector<JobMeans> jobs = job_means(document);
  if (jobs.size() < 2) return "";
  std::vector<Table::Column> columns{{"JOB"}, {"IDEAL ms", Align::kRight}};
  for (const json& scheme : document["schemes"]) columns.push_back({scheme.value("scheme", "?"), Align::kRight});
  Table table(columns);
  for (size_t i = 0; i < std::min(jobs.size(), kMostJobs); ++i) {
    std::vector<Table::Cell> row{jobs[i].name, milliseconds(jobs[i].ideal_ms > 0 ? json(jobs[i].ideal_ms) : json())};
    for (const double mean : jobs[i].mean_ms) row.emplace_back(beside_ideal(mean, jobs[i].ideal_ms));
    table.add_row(row);
  }
  return fmt::format(
      "\n{}Mean iteration of each job, {}{}.\n", table.to_string(colour),
      jobs[0].ideal_ms > 0 ? "times its ideal" : "milliseconds",
      jobs.size() > kMostJobs
          ? fmt::format("; the first {} of {} jobs, the others are in the JSON and the page", kMostJobs, jobs.size())
          : "");
}

std::string verdicts(const json& document) {
  std::string text;
  const json* orrery = find(document, "orrery");
  if (orrery == nullptr || (*orrery).value("mean_ms", 0.0) <= 0) return text;
  for (const auto& [name, words] :
       {std::pair{"ecmp", "ECMP"}, std::pair{"ecmp-multi", "ECMP with several connections"}}) {
    const json* other = find(document, name);
    if (other == nullptr || (*other).value("mean_ms", 0.0) <= 0) continue;
    text += fmt::format("{} takes {:.2f} times as long as Orrery on average, {:.2f} times at P99.\n", words,
                        (*other).value("mean_ms", 0.0) / (*orrery).value("mean_ms", 1.0),
                        (*other).value("p99_ms", 0.0) / (*orrery).value("p99_ms", 1.0));
  }
  return text;
}

}  // namespace

std::string render_text(const json& document, bool colour) {
  Table table({{"SCHEME"},
               {"MEAN ms", Align::kRight},
               {"P50", Align::kRight},
               {"P99", Align::kRight},
               {"WORST", Align::kRight},
               {"IT/S", Align::kRight},
               {"x IDEAL", Align::kRight},
               {"CORE MAX", Align::kRight},
               {"SPREAD", Align::kRight},
               {"DROPS", Align::kRight},
               {"RESENT", Align::kRight},
               {"MARKS", Align::kRight},
               {"PAUSES", Align::kRight},
               {"PLAN GAP", Align::kRight}});
  if (document.contains("ideal_ms") && document["ideal_ms"].is_number())
    table.add_row({"ideal", milliseconds(document["ideal_ms"]), "", "", "",
                   fmt::format("{:.2f}", document.value("ideal_per_s", 0.0)), "1.000"});
  uint64_t unfinished = 0;
  for (const json& s : document["schemes"]) {
    unfinished += s.value("unfinished", uint64_t{0});
    table.add_row({s.value("scheme", "?"), milliseconds(s.value("mean_ms", json())),
                   milliseconds(s.value("p50_ms", json())), milliseconds(s.value("p99_ms", json())),
                   milliseconds(s.value("worst_ms", json())), fmt::format("{:.2f}", s.value("iterations_per_s", 0.0)),
                   times(s.value("slowdown", json())), percent(s.value("max_core_utilisation", json())),
                   times(s.value("core_spread", json())), count(s, "drops"), count(s, "retransmits"), count(s, "marks"),
                   count(s, "pauses"), percent(s.value("plan_gap", json()))});
  }
  std::string text = document.value("title", "") + "\n\n" + table.to_string(colour) + job_text(document, colour) +
                     "\n" + verdicts(document) +
                     "x IDEAL: mean beside that of the same fabric with core links 100 times as fast. CORE MAX: use of "
                     "the busiest link between switches\nover the whole run; SPREAD: that link beside their mean. "
                     "PLAN GAP: the plan's busiest link beside what no plan can go below.\n";
  if (unfinished > 0)
    text += ctl::toned(fmt::format("WARNING: {} iterations did not end and are in no figure.\n", unfinished),
                       ctl::Tone::kBad, colour);
  return text;
}

}  // namespace orrery::sim
