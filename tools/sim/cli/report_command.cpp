// orrery-sim report RESULT.json: one self-contained page. Nothing is fetched; the same document gives the same page.
#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "tools/sim/cli/document.h"
#include "tools/sim/cli/report_charts.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page:#f7f7f4; --card:#fff; --ink:#16181d; --quiet:#5d6270; --rule:#e2e2dc;
  --s0:#d9581f; --s1:#0f9468; --s2:#b88600; --s3:#8a4fc4; --s4:#c2407a; --s5:#6b7d1c; --s6:#3c404b; --s7:#7fb0e6; --s8:#2468c9; --s9:#12397a;
  --h0:#2f6fb3; --h1:#6a9bd0; --h2:#a4bfdd; --h3:#c3ccd6; --h4:#c9c8c2; --h5:#efc39a; --h6:#ea9a5c; --h7:#da6a34; --h8:#b3341f }
@media (prefers-color-scheme: dark) { :root { --page:#121418; --card:#1b1e24; --ink:#eceef2; --quiet:#9aa1af; --rule:#2d313a;
  --s0:#ef7d45; --s1:#35b98c; --s2:#d4a72c; --s3:#b182e8; --s4:#e873a5; --s5:#a9bd4b; --s6:#9aa1af; --s7:#a9cbf2; --s8:#5b9bf0; --s9:#3f6fd0;
  --h2:#38597d; --h3:#434c58; --h4:#53555a; --h5:#7d5c3d; --h6:#a8643a; --h7:#d4683a; --h8:#f0523a } }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif }
main { max-width:1100px; margin:0 auto; padding:36px 24px 60px } h1 { font-size:27px; line-height:1.25; margin:0 0 8px }
h2 { font-size:19px; margin:0 0 4px } p { margin:0 0 12px; max-width:80ch } .quiet { color:var(--quiet) }
section { background:var(--card); border:1px solid var(--rule); border-radius:12px; padding:22px; margin-top:18px }
.scroll { overflow-x:auto } table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:14.5px }
th,td { padding:6px 10px; text-align:right; border-bottom:1px solid var(--rule); white-space:nowrap } th:first-child,td:first-child { text-align:left }
.key { display:flex; flex-wrap:wrap; gap:6px 18px; font-size:14px; margin:6px 0 } .key i { display:inline-block; width:14px; height:14px; border-radius:3px; margin-right:6px; vertical-align:-2px }
svg { width:100%; height:auto; display:block } svg text { fill:var(--ink); font-size:13px } svg .axis { fill:var(--quiet); font-size:12px }
.grid { stroke:var(--rule) } .ideal { stroke:var(--quiet); stroke-width:1.5; stroke-dasharray:4 4 } .curve { fill:none !important; stroke-width:2.3 } .pale { opacity:.4 }
@media print { section { break-inside:avoid } }
)";

std::string colours() {
  std::string css;
  for (size_t i = 0; i < 10; ++i)
    css += fmt::format(
        "svg .s{0} {{ fill:var(--s{0}); stroke:none }} svg .curve.s{0} {{ stroke:var(--s{0}) }} i.s{0} {{ "
        "background:var(--s{0}) }}\n",
        i);
  for (size_t i = 0; i < 9; ++i)
    css += fmt::format("svg .h{0} {{ fill:var(--h{0}) }} i.h{0} {{ background:var(--h{0}) }}\n", i);
  return css;
}

std::string cell(const json& scheme, const char* key, const char* form, double factor = 1) {
  const auto found = scheme.find(key);
  if (found == scheme.end() || !found->is_number()) return "<td>-</td>";
  return fmt::format("<td>{}</td>", fmt::format(fmt::runtime(form), found->get<double>() * factor));
}

std::string figures(const json& document) {
  std::string rows;
  for (const json& s : document["schemes"])
    rows += "<tr><th scope=\"row\">" + escape_html(s.value("scheme", "?")) + "</th>" + cell(s, "mean_ms", "{:.3f}") +
            cell(s, "p50_ms", "{:.3f}") + cell(s, "p99_ms", "{:.3f}") + cell(s, "worst_ms", "{:.3f}") +
            cell(s, "iterations_per_s", "{:.2f}") + cell(s, "slowdown", "{:.3f}") +
            cell(s, "max_core_utilisation", "{:.1f} %", 100) + cell(s, "core_spread", "{:.2f}") +
            cell(s, "drops", "{:.0f}") + cell(s, "retransmits", "{:.0f}") + cell(s, "marks", "{:.0f}") +
            cell(s, "pauses", "{:.0f}") + cell(s, "plan_gap", "{:.1f} %", 100) + "</tr>";
  return "<div class=\"scroll\"><table><thead><tr><th>scheme</th><th>mean ms</th><th>P50</th><th>P99</th><th>worst</th>"
         "<th>it/s</th><th>x ideal</th><th>core max</th><th>spread</th><th>drops</th><th>resent</th><th>marks</th>"
         "<th>pauses</th><th>plan gap</th></tr></thead><tbody>" +
         rows + "</tbody></table></div>";
}

std::string key(const json& document) {
  std::string items;
  size_t index = 0;
  for (const json& s : document["schemes"])
    items +=
        fmt::format("<span><i class=\"{}\"></i>{}</span>", series_class(index++), escape_html(s.value("scheme", "?")));
  if (document.value("ideal_ms", json()).is_number())
    items += fmt::format("<span>dashed: ideal, {:.3f} ms</span>", document["ideal_ms"].get<double>());
  return "<div class=\"key\">" + items + "</div>";
}

std::string section(const char* title, const char* words, const std::string& inner) {
  return fmt::format("<section><h2>{}</h2><p class=\"quiet\">{}</p>{}</section>\n", title, words, inner);
}

std::string heat_key() {
  std::string items;
  for (const auto& [level, words] :
       {std::pair{0, "idle"}, {2, "half"}, {4, "even share"}, {6, "1.6 x"}, {8, "2.5 x and more"}})
    items += fmt::format("<span><i class=\"h{}\"></i>{}</span>", level, words);
  return "<div class=\"key\">" + items + "</div>";
}

}  // namespace

std::string render_html(const json& document) {
  const std::string title = escape_html(document.value("title", "simulation"));
  const json settings = document.value("settings", json::object());
  const std::string model =
      fmt::format("Engine {}, PFC {}, DCQCN {}, clock error {:g} ns, {} connections for ecmp-multi.",
                  escape_html(settings.value("engine", "packet")), settings.value("pfc", false) ? "on" : "off",
                  settings.value("dcqcn", false) ? "on" : "off", settings.value("clock_error_ns", 0.0),
                  settings.value("connections", 0));
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width,initial-scale=1\"><title>Orrery: " +
         title + "</title><style>" + kStyle + colours() + "</style></head><body><main>\n<h1>" + title +
         "</h1><p class=\"quiet\">" + model + "</p>\n" +
         section("Ablation", "The same jobs on the same fabric under every scheme; all iterations of all seeds.",
                 key(document) + ablation_bars(document)) +
         section("How long an iteration takes",
                 "Share of iterations that took at most so long. Further left is faster; steeper is steadier.",
                 key(document) + iteration_cdf(document)) +
         section("What each link between switches carried",
                 "Bytes beside an even share, with the first seed. A link above 1 holds everyone up; one below was "
                 "paid for "
                 "and left idle.",
                 heat_key() + link_heat(document)) +
         section("Figures", "x ideal: mean beside that of the same fabric with core links 100 times as fast.",
                 figures(document)) +
         "</main></body></html>\n";
}

void add_report_command(CLI::App& app, Console& console, std::function<int()>& action) {
  struct Options {
    std::string result, output;
  };
  CLI::App* command = app.add_subcommand("report", "Make one self-contained HTML page of a result");
  auto options = std::make_shared<Options>();
  command->add_option("RESULT", options->result, "What `run --json` printed")->required();
  command->add_option("--output,-o", options->output, "File to write instead of standard output");
  command->callback([&console, &action, options] {
    action = [&console, options] {
      const auto document = load_document(options->result);
      if (!document) return report(console, document.error());
      const std::string page = render_html(*document);
      if (options->output.empty())
        console.out << page;
      else if (const auto written = write_file(options->output, page); !written)
        return report(console, written.error());
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace orrery::sim
