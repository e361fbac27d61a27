// What each of several jobs got.
#include <fmt/format.h>

#include <algorithm>

#include "tools/sim/cli/document.h"
#include "tools/sim/cli/report_charts.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

constexpr size_t kMostJobs = 512;

}  // namespace

std::string job_table(const json& document) {
  const std::vector<JobMeans> jobs = job_means(document);
  if (jobs.size() < 2) return "";
  std::string head = "<th>job</th><th>ideal ms</th>", rows;
  for (const json& scheme : document["schemes"]) head += "<th>" + scheme_name(scheme) + "</th>";
  const size_t shown = std::min(jobs.size(), kMostJobs);
  for (size_t i = 0; i < shown; ++i) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td>", escape_html(jobs[i].name),
                        jobs[i].ideal_ms > 0 ? fmt::format("{:.3f}", jobs[i].ideal_ms) : "-");
    for (const double mean : jobs[i].mean_ms)
      rows += fmt::format("<td title=\"{:.3f} ms\">{}</td>", mean, beside_ideal(mean, jobs[i].ideal_ms));
    rows += "</tr>";
  }
  return "<div class=\"scroll\"><table><thead><tr>" + head + "</tr></thead><tbody>" + rows + "</tbody></table></div>" +
         (shown < jobs.size() ? fmt::format("<p class=\"quiet\">The first {} of {} jobs.</p>", shown, jobs.size())
                              : "");
}

}  // namespace orrery::sim
