#include "tools/sim/cli/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "tools/sim/cli/history.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

constexpr double kWidth = 900, kLeft = 120, kRight = 125;
constexpr size_t kColours = 11;

struct Axis {
  std::vector<double> marks;
  double x(double value) const { return kLeft + (kWidth - kLeft - kRight) * value / marks.back(); }
};

std::string grid(const Axis& axis, double top, double bottom, const char* title) {
  std::string svg;
  for (const double mark : axis.marks)
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text class=\"axis\" x=\"{0:.1f}\" "
        "y=\"{3}\" text-anchor=\"middle\">{4:g}</text>",
        axis.x(mark), top, bottom, bottom + 18, mark);
  return svg + fmt::format("<text class=\"axis\" x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                           (kLeft + kWidth - kRight) / 2, bottom + 36, title);
}

std::string ideal_line(const json& document, const Axis& axis, double top, double bottom) {
  const double ideal = number(document, "ideal_ms");
  if (ideal <= 0 || ideal > axis.marks.back()) return "";
  return fmt::format(
      "<line class=\"ideal\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"><title>ideal {3:.3f} "
      "ms</title></line>",
      axis.x(ideal), top, bottom, ideal);
}

std::vector<double> all_times(const json& scheme) {
  std::vector<double> times;
  for (const json& run : scheme.value("per_seed", json::array()))
    for (const json& time : run.value("times_ms", json::array()))
      if (time.is_number()) times.push_back(time.get<double>());
  std::sort(times.begin(), times.end());
  return times;
}

// 0..8: far below an even share .. 2.5 times it and more.
size_t heat(double load) {
  constexpr double kBounds[] = {0.125, 0.4, 0.7, 0.9, 1.1, 1.4, 1.8, 2.5};
  return static_cast<size_t>(std::upper_bound(std::begin(kBounds), std::end(kBounds), load) - std::begin(kBounds));
}

std::vector<double> first_loads(const json& scheme) {
  std::vector<double> bytes;
  const json runs = scheme.value("per_seed", json::array());
  if (runs.empty()) return bytes;
  for (const json& value : runs[0].value("link_bytes", json::array()))
    if (value.is_number()) bytes.push_back(value.get<double>());
  double sum = 0;
  for (const double value : bytes) sum += value;
  for (double& value : bytes) value = sum > 0 ? value * static_cast<double>(bytes.size()) / sum : 0;
  return bytes;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return escape_html(text);
  const auto inside = [&](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80; };  // of a UTF-8 letter
  size_t head = most / 2, tail = text.size() - (most - most / 2 - 1);
  while (head > 0 && inside(head)) --head;
  while (tail < text.size() && inside(tail)) ++tail;
  return escape_html(text.substr(0, head)) + "…" + escape_html(text.substr(tail));
}

std::string series_class(size_t index) {
  return fmt::format("s{}", index % kColours);
}

double number(const json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string scheme_name(const json& scheme) {
  return escape_html(scheme.value("scheme", "?"));
}

std::vector<double> ticks(double top) {
  if (!(top > 0)) return {0, 1};
  const double rough = top / 5, magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * magnitude;
  for (const double m : {5.0, 2.5, 2.0, 1.0})
    if (m * magnitude >= rough) step = m * magnitude;
  std::vector<double> marks{0};
  while (marks.back() < top * (1 - 1e-9)) marks.push_back(marks.back() + step);
  return marks;
}

std::string frame(double width, double height, const std::string& label, const std::string& inner) {
  return fmt::format("<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>", width, height, label,
                     inner);
}

size_t use_level(double share) {
  constexpr double kBounds[] = {0.005, 0.125, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95};
  return static_cast<size_t>(std::upper_bound(std::begin(kBounds), std::end(kBounds), share) - std::begin(kBounds));
}

void UseGrid::add(size_t row, size_t column, size_t level, size_t columns) {
  if (row != row_ || column != end_ || level != level_) {
    end_run();
    row_ = row;
    begin_ = column;
    level_ = level;
  }
  end_ = column + columns;
}

void UseGrid::end_run() {
  if (begin_ < end_) strokes_[level_] += fmt::format("M{} {}h{}", begin_, row_, end_ - begin_);
  begin_ = end_ = 0;
}

std::string UseGrid::svg(double x, double y, double width, double height) {
  end_run();
  std::string paths;
  for (size_t level = 0; level < strokes_.size(); ++level)
    if (!strokes_[level].empty()) paths += fmt::format("<path class=\"l{}\" d=\"{}\"/>", level, strokes_[level]);
  return fmt::format("<g transform=\"translate({:.2f} {:.2f}) scale({:.4f} {:.4f})\" stroke-width=\"{:.2f}\">{}</g>", x,
                     y + height / 2, width, height, height > 4 ? 1 - std::min(1.0, 0.08 * height) / height : 1.02,
                     paths);
}

std::vector<double> decode_use(const json& object, const char* key) {
  std::vector<double> use;
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return use;
  const auto& text = object[key].get_ref<const std::string&>();
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned level = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, level, 16);
    use.push_back(level / kFullUse);
  }
  return use;
}

std::string ablation_bars(const json& document) {
  constexpr double kRow = 34;
  double longest = number(document, "ideal_ms");
  for (const json& scheme : document["schemes"]) longest = std::max(longest, number(scheme, "p99_ms"));
  const Axis axis{ticks(longest)};
  const double bottom = 10 + kRow * static_cast<double>(document["schemes"].size());
  std::string svg = grid(axis, 6, bottom, "milliseconds: mean / P99 (the pale bar)");
  double y = 10;
  size_t index = 0;
  for (const json& scheme : document["schemes"]) {
    const double mean = number(scheme, "mean_ms"), p99 = number(scheme, "p99_ms");
    const std::string series = series_class(index++);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLeft - 8, y + 19, scheme_name(scheme));
    svg += fmt::format("<rect class=\"pale {}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"8\"/>", series, kLeft,
                       y + 17, axis.x(p99) - kLeft);
    svg += fmt::format(
        "<rect class=\"{0}\" x=\"{1}\" y=\"{2}\" width=\"{3:.1f}\" height=\"13\"><title>{4}: mean {5:.3f} ms, P99 "
        "{6:.3f} "
        "ms</title></rect>",
        series, kLeft, y + 4, axis.x(mean) - kLeft, scheme_name(scheme), mean, p99);
    svg += fmt::format("<text class=\"axis\" x=\"{:.1f}\" y=\"{}\">{}</text>", axis.x(std::max(mean, p99)) + 6, y + 17,
                       mean > 0 ? fmt::format("{:.3f} / {:.3f}", mean, p99) : "none ended");
    y += kRow;
  }
  return frame(kWidth, bottom + 44, "Iteration time of every scheme", svg + ideal_line(document, axis, 6, bottom));
}

std::string ablation_steps(const json& document) {
  struct Step {
    const char* scheme;
    const char* adds;
  };
  constexpr Step kSteps[] = {{"ecmp", "hashing: every connection on the path that its port numbers draw"},
                             {"orrery-paths", "+ planned paths"},
                             {"orrery", "+ release offsets where flows share a link, all-to-all in rounds"},
                             {"orrery-phases", "+ jobs that share links take turns"},
                             {"orrery-repath", "+ another path for a burst that finds its own congested"}};
  std::string rows, adds;
  double before = 0;
  for (const Step& step : kSteps) {
    adds += (adds.empty() ? "" : " ") + std::string(step.adds);  // with what the schemes left out would have added
    for (const json& scheme : document["schemes"]) {
      if (scheme.value("scheme", "") != step.scheme) continue;
      const double mean = number(scheme, "mean_ms");
      const double change = before > 0 ? 100 * (mean / before - 1) : 0;
      const std::string shown = before <= 0               ? ""
                                : std::abs(change) < 0.05 ? "no change"
                                                          : fmt::format("{:+.1f} %", change);
      rows += fmt::format(
          "<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td><td>{:.3f}</td><td "
          "class=\"{}\">{}</td><td>{:.3f}</td>"
          "<td>{:.0f}</td></tr>",
          step.scheme, adds, mean,
          change < -0.05  ? "good"
          : change > 0.05 ? "bad"
                          : "",
          shown, number(scheme, "p99_ms"), number(scheme, "drops"));
      before = mean;
      adds.clear();
    }
  }
  if (rows.empty()) return "";
  return "<div class=\"scroll\"><table><thead><tr><th>scheme</th><th class=\"words\">what it adds to the row "
         "above</th><th>mean ms</th><th>change</th><th>P99 ms</th><th>drops</th></tr></thead><tbody>" +
         rows + "</tbody></table></div>";
}

std::string iteration_cdf(const json& document) {
  constexpr double kTop = 10, kBottom = 300;
  double longest = number(document, "ideal_ms");
  for (const json& scheme : document["schemes"])
    if (const auto times = all_times(scheme); !times.empty()) longest = std::max(longest, times.back());
  const Axis axis{ticks(longest)};
  const auto y = [&](double share) { return kBottom - (kBottom - kTop) * share; };
  std::string svg = grid(axis, kTop, kBottom, "iteration time, milliseconds");
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text class=\"axis\" x=\"{3}\" "
        "y=\"{4:.1f}\" text-anchor=\"end\">{5:.0f} %</text>",
        kLeft, kWidth - kRight, y(share), kLeft - 8, y(share) + 4, 100 * share);
  size_t index = 0;
  for (const json& scheme : document["schemes"]) {
    const auto times = all_times(scheme);
    const std::string series = series_class(index++);
    if (times.empty()) continue;
    std::string path = fmt::format("M{:.1f} {:.1f}", axis.x(0), y(0));
    // At most a few hundred corners, however many iterations there were.
    const size_t every = std::max<size_t>(1, times.size() / 400);
    for (size_t i = 0; i < times.size(); i += every) {
      const size_t last = std::min(i + every, times.size());
      path += fmt::format("H{:.1f}V{:.1f}", axis.x(times[last - 1]),
                          y(static_cast<double>(last) / static_cast<double>(times.size())));
    }
    svg += fmt::format("<path class=\"curve {}\" d=\"{}H{:.1f}\"><title>{}</title></path>", series, path,
                       axis.x(axis.marks.back()), scheme_name(scheme));
  }
  return frame(kWidth, kBottom + 44, "Distribution of iteration times",
               svg + ideal_line(document, axis, kTop, kBottom));
}

std::string link_heat(const json& document) {
  constexpr double kRow = 22;
  constexpr size_t kMostCells = 256;  // beyond, a cell is the fullest of several links
  const json links = document.value("fabric", json::object()).value("core_links", json::array());
  std::string svg;
  double y = 4;
  for (const json& scheme : document["schemes"]) {
    const auto loads = first_loads(scheme);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLeft - 8, y + 15, scheme_name(scheme));
    const size_t every = loads.size() / kMostCells + 1, cells = (loads.size() + every - 1) / every;
    const double width = (kWidth - kLeft - 10) / static_cast<double>(std::max<size_t>(1, cells));
    for (size_t cell = 0; cell < cells; ++cell) {
      const auto first = loads.begin() + static_cast<std::ptrdiff_t>(cell * every);
      const auto last = loads.begin() + static_cast<std::ptrdiff_t>(std::min((cell + 1) * every, loads.size()));
      const auto fullest = std::max_element(first, last);
      const auto at = static_cast<size_t>(fullest - loads.begin());
      const std::string port = at < links.size() ? links[at].value("port", "") + " to " + links[at].value("to", "")
                                                 : fmt::format("link {}", at);
      svg += fmt::format(
          "<rect class=\"h{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"><title>{}: {:.2f} x an even "
          "share</title></rect>",
          heat(*fullest), kLeft + width * static_cast<double>(cell), y, std::max(width * 0.94, 0.6), kRow - 3,
          escape_html(port), *fullest);
    }
    y += kRow;
  }
  return frame(kWidth, y + 4, "What each link between switches carried", svg);
}

}  // namespace orrery::sim
