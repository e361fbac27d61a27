// Charts of what happened over the time of one run: links, queues, NICs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/sim/cli/report_charts.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

constexpr size_t kMostSlices = 1024;  // of a document that claims more, the first
constexpr size_t kMostRows = 256;

json list(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_array() ? *found : json::array();
}

// Marks below a time axis from 0 to `end`, in milliseconds, or microseconds where that is shorter to read.
std::string time_axis(double left, double right, double top, double bottom, double end_ms) {
  const bool micro = end_ms < 1;
  const double end = micro ? 1000 * end_ms : end_ms;
  std::string svg;
  for (const double mark : ticks(end)) {
    if (mark > end * 1.001) break;
    const double x = left + (right - left) * mark / (end > 0 ? end : 1);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/><text class=\"axis\" "
        "x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:g}</text>",
        x, top, bottom, bottom + 15, mark);
  }
  return svg + fmt::format("<text class=\"axis\" x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                           (left + right) / 2, bottom + 31, micro ? "microseconds" : "milliseconds");
}

struct Axes {
  double left, right, top, bottom;
};

// Steps of a share of the link's rate over time.
std::string steps(const std::vector<double>& use, const Axes& at, bool area) {
  if (use.empty()) return "";
  const double width = (at.right - at.left) / static_cast<double>(use.size());
  const auto y = [&](double share) { return at.bottom - (at.bottom - at.top) * std::min(share, 1.02); };
  std::string path = fmt::format("M{:.1f} {:.1f}", at.left, area ? at.bottom : y(use[0]));
  for (size_t i = 0; i < use.size(); ++i)
    if (i == 0 || i + 1 == use.size() || use[i] != use[i - 1] || use[i] != use[i + 1])
      path += fmt::format("V{:.1f}H{:.1f}", y(use[i]), at.left + width * static_cast<double>(i + 1));
    else
      path += fmt::format("H{:.1f}", at.left + width * static_cast<double>(i + 1));
  return area ? path + fmt::format("V{:.1f}Z", at.bottom) : path;
}

std::string wave(const std::string& title, const std::vector<double>& use, double end_ms, double rate_bps) {
  const Axes at{44, 440, 26, 96};
  std::string svg = time_axis(at.left, at.right, at.top, at.bottom, end_ms);
  for (const double share : {0.0, 0.5, 1.0})
    svg += fmt::format("<text class=\"axis\" x=\"38\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>",
                       at.bottom - (at.bottom - at.top) * share + 4, share * rate_bps / 1e9);
  return frame(450, 130, title,
               fmt::format("<text x=\"{}\" y=\"16\">{}</text><text class=\"axis\" x=\"440\" y=\"16\" "
                           "text-anchor=\"end\">Gbit/s</text>{}<path class=\"wave\" d=\"{}\"/>",
                           at.left, title, svg, steps(use, at, true)));
}

std::string nic_title(const json& nic, size_t of, const char* what) {
  return fmt::format("{}: {} ({:.0f} of {}), {:.1f} MB", what, shortened(nic.value("name", "?"), 26),
                     number(nic, "rank"), of, number(nic, "bytes") / 1e6);
}

// What a pointer on the row is told.
std::string row_title(const json& row, double left, double right, double y, double height) {
  const std::vector<double> mean = decode_use(row, "mean"), fullest = decode_use(row, "fullest");
  if (mean.empty() || fullest.empty()) return "";
  const double sum = std::accumulate(mean.begin(), mean.end(), 0.0);
  return fmt::format(
      "<rect class=\"row\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"><title>{}: mean {:.0f} %, fullest "
      "{:.0f} %</title></rect>",
      left, y, right - left, height, escape_html(row.value("name", "?")), 100 * sum / static_cast<double>(mean.size()),
      100 * *std::max_element(fullest.begin(), fullest.end()));
}

}  // namespace

std::string time_heat(const json& scheme) {
  const json history = scheme.value("history", json::object());
  const json rows = list(history, "rows");
  if (rows.empty()) return "";
  const size_t count = std::min(rows.size(), kMostRows);
  const double left = 156, right = 512, height = std::clamp(320.0 / static_cast<double>(count), 5.0, 16.0);
  UseGrid grid;
  size_t slices = 1;
  std::string labels;
  double y = 6;
  const size_t each_label = static_cast<size_t>(std::ceil(11 / height));
  for (size_t row = 0; row < count; ++row, y += height) {
    std::vector<double> use = decode_use(rows[row], "fullest");
    if (use.size() > kMostSlices) use.resize(kMostSlices);
    slices = std::max(slices, use.size());
    for (size_t i = 0; i < use.size(); ++i) grid.add(row, i, use_level(use[i]));
    labels += row_title(rows[row], left, right, y, height);
    if (row % each_label == 0)
      labels += fmt::format("<text class=\"axis tiny\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left - 6,
                            y + height / 2 + 3, shortened(rows[row].value("name", "?"), 29));
  }
  const double width = (right - left) / static_cast<double>(slices);
  return frame(520, y + 38, "Use of links over time",
               grid.svg(left, 6, width, height) + labels + time_axis(left, right, y, y + 4, number(history, "end_ms")));
}

std::string nic_waves(const json& document, const json& scheme) {
  const json history = scheme.value("history", json::object());
  const json nics = list(history, "nics");
  if (nics.empty()) return "";
  const json fabric = document.value("fabric", json::object());
  const double end = number(history, "end_ms"), rate = number(fabric, "nic_rate_bps");
  const auto hosts = static_cast<size_t>(number(fabric, "hosts"));
  std::string html = "<div class=\"waves\">";
  html += wave(nic_title(nics.front(), hosts, "busiest"), decode_use(nics.front(), "use"), end, rate);
  const json& median = nics[nics.size() / 2];
  html += wave(nic_title(median, hosts, "median"), decode_use(median, "use"), end, rate);
  html += wave(nic_title(nics.back(), hosts, "idlest"), decode_use(nics.back(), "use"), end, rate);
  html += "<div class=\"chosen\"><label>any other: <select>";
  for (const json& nic : nics)
    html += fmt::format("<option value=\"{}\">{}</option>", escape_html(nic.value("use", "")),
                        nic_title(nic, hosts, "NIC"));
  html += "</select></label>" + wave("", decode_use(nics.front(), "use"), end, rate) + "</div></div>";
  return html;
}

std::string queue_cdf(const json& document, const char* ports) {
  constexpr Axes kAt{54, 510, 12, 220};
  constexpr double kFloor = 1024, kMost = 64.0 * 1024 * 1024;
  double deepest = 64 * 1024;
  std::string lines;
  size_t index = 0;
  const auto each = [&](const auto& draw) {
    index = 0;
    for (const json& scheme : document["schemes"]) {
      const json history = scheme.value("history", json::object());
      for (const json& queues : list(history, "queues"))
        if (queues.value("name", "") == ports) draw(list(queues, "bytes"), list(queues, "share"), scheme);
      ++index;
    }
  };
  each([&](const json& bytes, const json&, const json&) {
    if (!bytes.empty() && bytes.back().is_number()) deepest = std::max(deepest, bytes.back().get<double>());
  });
  deepest = std::min(deepest, kMost);
  const auto x = [&](double bytes) {
    const double part = std::log(std::clamp(bytes, kFloor, deepest) / kFloor) / std::log(deepest / kFloor);
    return kAt.left + (kAt.right - kAt.left) * part;
  };
  const auto y = [&](double share) { return kAt.bottom - (kAt.bottom - kAt.top) * share; };
  each([&](const json& bytes, const json& share, const json& scheme) {
    std::string path;
    for (size_t i = 0; i < std::min(bytes.size(), share.size()); ++i) {
      if (!bytes[i].is_number() || !share[i].is_number()) return;
      const double at = y(std::clamp(share[i].get<double>(), 0.0, 1.0));
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", kAt.left, at)
                           : fmt::format("H{:.1f}V{:.1f}", x(bytes[i].get<double>()), at);
    }
    if (!path.empty())
      lines += fmt::format("<path class=\"curve {}\" d=\"{}H{:.1f}\"><title>{}</title></path>", series_class(index),
                           path, kAt.right, scheme_name(scheme));
  });
  if (lines.empty()) return "";
  std::string svg;
  for (double mark = kFloor; mark <= deepest; mark *= 4)
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text class=\"axis\" x=\"{0:.1f}\" "
        "y=\"{3}\" text-anchor=\"middle\">{4}</text>",
        x(mark), kAt.top, kAt.bottom, kAt.bottom + 16,
        mark < 1024 * 1024 ? fmt::format("{:g} Ki", mark / 1024) : fmt::format("{:g} Mi", mark / 1048576));
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text class=\"axis\" x=\"{3}\" "
        "y=\"{4:.1f}\" text-anchor=\"end\">{5:.0f} %</text>",
        kAt.left, kAt.right, y(share), kAt.left - 6, y(share) + 4, 100 * share);
  svg += fmt::format("<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">bytes waiting in a port {}</text>",
                     (kAt.left + kAt.right) / 2, kAt.bottom + 34, ports);
  return frame(520, kAt.bottom + 42, fmt::format("Queue depth {}", ports), svg + lines);
}

}  // namespace orrery::sim
