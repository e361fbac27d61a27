// orrery-sim report RESULT.json: one self-contained page. Nothing is fetched; the same document gives the same page.
#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "tools/sim/cli/document.h"
#include "tools/sim/cli/report_charts.h"
#include "tools/sim/cli/report_style.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

std::string colours() {
  std::string css;
  for (size_t i = 0; i < 11; ++i)
    css += fmt::format(
        "svg .s{0} {{ fill:var(--s{0}); stroke:none }} svg .curve.s{0} {{ stroke:var(--s{0}) }} i.s{0} {{ "
        "background:var(--s{0}) }}\n",
        i);
  for (size_t i = 0; i < 9; ++i)
    css += fmt::format(
        "svg .h{0} {{ fill:var(--h{0}) }} i.h{0} {{ background:var(--h{0}) }} svg .u{0} {{ fill:var(--u{0}) }} "
        "i.u{0} {{ background:var(--u{0}) }} svg .l{0} {{ stroke:var(--u{0}) }}\n",
        i);
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

std::string key(const json& document, bool ideal = true) {
  std::string items;
  size_t index = 0;
  for (const json& s : document["schemes"])
    items +=
        fmt::format("<span><i class=\"{}\"></i>{}</span>", series_class(index++), escape_html(s.value("scheme", "?")));
  if (ideal && number(document, "ideal_ms") > 0)
    items += fmt::format("<span>dashed: ideal, {:.3f} ms</span>", number(document, "ideal_ms"));
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

std::string use_key() {
  std::string items;
  for (const auto& [level, words] : {std::pair{0, "idle"}, {2, "20 %"}, {4, "50 %"}, {6, "80 %"}, {8, "95 % and more"}})
    items += fmt::format("<span><i class=\"u{}\"></i>{}</span>", level, words);
  return "<div class=\"key\">" + items + "<span>of the link's rate</span></div>";
}

// A panel per scheme that has one, and chips that choose among them.
template <typename Draw>
std::string panels(const json& document, Draw draw) {
  std::string chips, inner;
  for (const json& scheme : document["schemes"]) {
    const std::string chart = draw(scheme), name = scheme_name(scheme);
    if (chart.empty()) continue;
    chips += fmt::format("<button type=\"button\" data-of=\"{0}\">{0}</button>", name);
    inner += fmt::format("<div data-scheme=\"{0}\"><h3>{0}</h3>{1}</div>", name, chart);
  }
  if (inner.empty()) return "";
  return "<div class=\"pick\" role=\"group\" aria-label=\"Schemes to show\">" + chips + "</div><div class=\"panels\">" +
         inner + "</div>";
}

// What is compared at first: hashing and the plan, else the first two.
std::string first_shown(const json& document) {
  std::vector<std::string> names;
  bool both = false, ecmp = false;
  for (const json& scheme : document["schemes"]) {
    names.push_back(scheme_name(scheme));
    both |= ecmp && names.back() == "orrery";
    ecmp |= names.back() == "ecmp";
  }
  if (both) return "ecmp orrery";
  names.resize(std::min<size_t>(2, names.size()));
  return fmt::format("{}", fmt::join(names, " "));
}

std::string tiles(const json& document) {
  const json *ecmp = nullptr, *orrery = nullptr;
  for (const json& scheme : document["schemes"]) {
    if (scheme.value("scheme", "") == "ecmp") ecmp = &scheme;
    if (scheme.value("scheme", "") == "orrery") orrery = &scheme;
  }
  if (orrery == nullptr || number(*orrery, "mean_ms") <= 0) return "";
  const auto tile = [](const std::string& figure, const std::string& words) {
    return "<div><b>" + figure + "</b><span>" + words + "</span></div>";
  };
  std::string text;
  if (ecmp != nullptr) {
    text += tile(fmt::format("{:.2f} x", number(*ecmp, "mean_ms") / number(*orrery, "mean_ms")),
                 "mean iteration of ECMP beside Orrery's");
    text += tile(fmt::format("{:.2f} x", number(*ecmp, "p99_ms") / std::max(1e-9, number(*orrery, "p99_ms"))),
                 "the same at P99");
    text +=
        tile(fmt::format("{:.0f} / {:.0f}", number(*ecmp, "drops"), number(*orrery, "drops")), "drops, ECMP / Orrery");
  }
  if (number(*orrery, "slowdown") > 0)
    text += tile(fmt::format("{:+.1f} %", 100 * (number(*orrery, "slowdown") - 1)),
                 "Orrery beside a fabric that never blocks");
  return "<div class=\"tiles\">" + text + "</div>";
}

std::string over_time(const json& document) {
  const std::string heat = panels(document, time_heat);
  if (heat.empty())
    return section("Over time",
                   "This result has no history: it was made without a file (-o, --report) or with --no-history.", "");
  std::string text = section(
      "Link heat over time",
      "A row per link between switches, or per switch where there are many: then the fullest of its links. "
      "Time runs to the right, in each panel to the end of its own run; first seed. Dark rows beside pale ones: "
      "some links hold everyone up while others idle.",
      use_key() + heat);
  const std::string core = queue_cdf(document, "between switches"), edge = queue_cdf(document, "towards hosts");
  if (!core.empty() || !edge.empty())
    text += section(
        "How deep queues are",
        "Share of all ports and of all time, sampled, in which at most so many bytes waited. The higher a line starts "
        "and the further left it reaches 100 %, the emptier the queues; first seed.",
        key(document, false) + "<div class=\"panels\"><div>" + core + "</div><div>" + edge + "</div></div>");
  return text +
         section(
             "What each NIC sends",
             "Rate of a NIC over time, in each panel to the end of its own run. Busiest and idlest by bytes sent; gaps "
             "are computation, or waiting for others.",
             panels(document, [&](const json& scheme) { return nic_waves(document, scheme); }));
}

std::string introduction(const json& document, const std::string& title) {
  const json settings = document.value("settings", json::object());
  std::string text =
      fmt::format("Engine {}, PFC {}, DCQCN {}, clock error {:g} ns, {:.0f} connections for ecmp-multi.",
                  escape_html(settings.value("engine", "packet")), settings.value("pfc", false) ? "on" : "off",
                  settings.value("dcqcn", false) ? "on" : "off", number(settings, "clock_error_ns"),
                  number(settings, "connections"));
  if (number(document, "runs_done") < number(document, "runs_total"))
    text += fmt::format(" <b>Not finished: {:.0f} of {:.0f} runs.</b>", number(document, "runs_done"),
                        number(document, "runs_total"));
  double unfinished = 0;
  for (const json& scheme : document["schemes"]) unfinished += number(scheme, "unfinished");
  if (unfinished > 0) text += fmt::format(" <b>{:.0f} iterations did not end and are in no figure.</b>", unfinished);
  return "<h1>" + title + "</h1><p class=\"quiet\">" + text + "</p>\n" + tiles(document);
}

}  // namespace

std::string render_html(const json& document) {
  const std::string title = escape_html(document.value("title", "simulation"));
  const std::string jobs = job_table(document);
  const std::string fabric = panels(document, [&](const json& scheme) { return fabric_picture(document, scheme); });
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width,initial-scale=1\"><title>Orrery: " +
         title + "</title><style>" + kStyle + colours() + "</style></head><body data-shown=\"" + first_shown(document) +
         "\"><main>\n" + introduction(document, title) +
         section("Ablation", "The same jobs on the same fabric under every scheme; all iterations of all seeds.",
                 key(document) + ablation_bars(document) + ablation_steps(document)) +
         (jobs.empty()
              ? ""
              : section(
                    "Jobs",
                    "Mean iteration of each job beside the ideal's (1: as on a fabric that never blocks), all seeds.",
                    jobs)) +
         section("How long an iteration takes",
                 "Share of iterations that took at most so long. Further left is faster; steeper is steadier. Of lines "
                 "that coincide only the last is seen.",
                 key(document) + iteration_cdf(document)) +
         (fabric.empty()
              ? ""
              : section(
                    "The fabric",
                    "Use of every link over the whole run, first seed: each cable as two lines, upwards on the left. "
                    "Squares are hosts: left what they sent, right what they received. Large fabrics: a line is the "
                    "mean of a bundle, every link is a cell below.",
                    use_key() + fabric)) +
         over_time(document) +
         section("What each link between switches carried",
                 "Bytes beside an even share, with the first seed. A link above 1 holds everyone up; one below was "
                 "paid for and left idle. Of more than 256 links a cell is the fullest of several neighbours.",
                 heat_key() + link_heat(document)) +
         section("Figures", "x ideal: mean beside that of the same fabric with core links 100 times as fast.",
                 figures(document)) +
         "</main><script data-page>" + kScript + "</script></body></html>\n";
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
      std::string page;
      if (const auto read = reading(options->result, [&] { page = render_html(*document); }); !read)
        return report(console, read.error());
      if (options->output.empty())
        console.out << page;
      else if (const auto written = write_file(options->output, page); !written)
        return report(console, written.error());
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace orrery::sim
