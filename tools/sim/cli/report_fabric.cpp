// The fabric as a picture: switches in tiers, the highest on top, hosts below their leaves.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/sim/cli/report_charts.h"

namespace orrery::sim {
namespace {

using nlohmann::json;

constexpr double kWidth = 520, kTierHeight = 130, kBox = 18;
constexpr size_t kMostBoxes = 16;    // of a tier; beyond, a box is several switches
constexpr size_t kMostCables = 320;  // drawn one by one
constexpr size_t kMostMatrix = 65'536;

struct Switch {
  std::string name;
  size_t tier = 1, hosts = 0, first_host = 0, box = 0;
};
struct Box {
  std::string name;
  size_t switches = 0, hosts = 0, first_host = 0;
  double x = 0, y = 0;
};
struct Cable {
  size_t low = 0, high = 0;  // switches
  double up = 0, down = 0;   // use over the run
};

class Picture {
 public:
  Picture(const json& document, const json& scheme) { read(document, scheme); }

  std::string draw() {
    if (switches_.empty() || cables_.empty()) return "";
    place();
    const double bottom = kTierHeight * static_cast<double>(tiers_.size() - 1) + 60;
    std::string svg = cables_.size() <= kMostCables ? lines() : bundles();
    svg += boxes() + hosts(bottom);
    return frame(kWidth, bottom + host_rows_ + 8, "The fabric, links coloured by use", svg) + matrix();
  }

 private:
  void read(const json& document, const json& scheme) {
    const json fabric = document.value("fabric", json::object());
    const json history = scheme.value("history", json::object());
    std::map<std::string, size_t> by_name;
    for (const json& node : fabric.value("switch_list", json::array())) {
      by_name[node.value("name", "")] = switches_.size();
      switches_.push_back({node.value("name", "?"), static_cast<size_t>(std::clamp(number(node, "tier"), 1.0, 8.0)),
                           static_cast<size_t>(std::clamp(number(node, "hosts"), 0.0, 1e6))});
    }
    size_t hosts = 0;
    for (Switch& node : switches_) {
      node.first_host = hosts;
      hosts += node.hosts;
    }
    sent_ = decode_use(history, "sent");
    received_ = decode_use(history, "received");
    const json runs = scheme.value("per_seed", json::array());
    const json links = fabric.value("core_links", json::array());
    if (runs.empty() || !runs[0].is_object()) return;
    const json bytes = runs[0].value("link_bytes", json::array());
    const double seconds = number(runs[0], "end_ms") / 1e3;
    std::map<std::pair<size_t, size_t>, std::vector<size_t>> open;  // cables whose other direction has not come yet
    for (size_t i = 0; i < std::min(links.size(), bytes.size()); ++i) {
      const auto from = by_name.find(links[i].value("from", "")), to = by_name.find(links[i].value("to", ""));
      if (from == by_name.end() || to == by_name.end() || !bytes[i].is_number()) continue;
      const double use = 8 * bytes[i].get<double>() / std::max(1.0, number(links[i], "rate_bps") * seconds);
      const bool up = switches_[from->second].tier <= switches_[to->second].tier;
      const size_t low = up ? from->second : to->second, high = up ? to->second : from->second;
      auto& waiting = open[{low, high}];
      const auto lacks = [&](size_t cable) { return (up ? cables_[cable].up : cables_[cable].down) < 0; };
      const auto found = std::find_if(waiting.begin(), waiting.end(), lacks);
      size_t cable = found != waiting.end() ? *found : cables_.size();
      if (found == waiting.end()) {
        cables_.push_back({low, high, -1, -1});
        waiting.push_back(cable);
      }
      (up ? cables_[cable].up : cables_[cable].down) = use;
    }
  }

  void place() {
    size_t top = 1;
    for (const Switch& node : switches_) top = std::max(top, node.tier);
    tiers_.resize(top);
    for (size_t tier = 1; tier <= top; ++tier) {
      std::vector<size_t> members;
      for (size_t i = 0; i < switches_.size(); ++i)
        if (switches_[i].tier == tier) members.push_back(i);
      const size_t each = std::max<size_t>(1, (members.size() + kMostBoxes - 1) / kMostBoxes);
      for (size_t i = 0; i < members.size(); ++i) {
        Switch& node = switches_[members[i]];
        if (i % each == 0) {
          tiers_[tier - 1].push_back(boxes_.size());
          boxes_.push_back({.name = node.name, .first_host = node.first_host});
        }
        node.box = boxes_.size() - 1;
        ++boxes_.back().switches;
        boxes_.back().hosts += node.hosts;
      }
      const auto count = static_cast<double>(tiers_[tier - 1].size());
      for (size_t i = 0; i < tiers_[tier - 1].size(); ++i) {
        Box& box = boxes_[tiers_[tier - 1][i]];
        box.x = 10 + (kWidth - 20) * (static_cast<double>(i) + 0.5) / count;
        box.y = 14 + kTierHeight * static_cast<double>(top - tier);
      }
    }
  }

  static std::string line(const Box& low, const Box& high, double shift, double use, double width,
                          const std::string& title) {
    return fmt::format(
        "<line class=\"l{}\" stroke-width=\"{:.1f}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\">"
        "<title>{}</title></line>",
        use_level(use), width, low.x + shift, low.y, high.x + shift, high.y + kBox, title);
  }

  // Each cable as two lines, up on the left.
  std::string lines() const {
    std::vector<std::pair<double, std::string>> drawn;
    std::map<std::pair<size_t, size_t>, int> parallel;
    for (const Cable& cable : cables_) {
      const Box &low = boxes_[switches_[cable.low].box], &high = boxes_[switches_[cable.high].box];
      const double shift = 5.0 * parallel[{cable.low, cable.high}]++;
      const std::string name = escape_html(switches_[cable.low].name) + " - " + escape_html(switches_[cable.high].name);
      for (const auto& [use, offset, way] : {std::tuple{cable.up, -1.2, "up"}, {cable.down, 1.2, "down"}})
        drawn.emplace_back(use, line(low, high, shift + offset, use, 1.9,
                                     fmt::format("{}, {}: {:.0f} %", name, way, 100 * std::max(0.0, use))));
    }
    return joined(drawn);
  }

  // Between two boxes one line, coloured by the mean, with the fullest told.
  std::string bundles() const {
    struct Bundle {
      double sum = 0, fullest = 0, count = 0;
    };
    std::map<std::pair<size_t, size_t>, Bundle> by_boxes;
    for (const Cable& cable : cables_) {
      Bundle& bundle = by_boxes[{switches_[cable.low].box, switches_[cable.high].box}];
      bundle.sum += std::max(cable.up, 0.0) + std::max(cable.down, 0.0);
      bundle.fullest = std::max({bundle.fullest, cable.up, cable.down});
      bundle.count += 2;
    }
    std::vector<std::pair<double, std::string>> drawn;
    for (const auto& [ends, bundle] : by_boxes) {
      const double mean = bundle.sum / bundle.count;
      drawn.emplace_back(mean, line(boxes_[ends.first], boxes_[ends.second], 0, mean, 2.2,
                                    fmt::format("{:.0f} links, mean {:.0f} %, fullest {:.0f} %", bundle.count,
                                                100 * mean, 100 * bundle.fullest)));
    }
    return joined(drawn);
  }

  // The fullest on top.
  static std::string joined(std::vector<std::pair<double, std::string>>& drawn) {
    std::stable_sort(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string svg;
    for (const auto& [use, text] : drawn) svg += text;
    return svg;
  }

  std::string boxes() const {
    std::string svg;
    for (const auto& tier : tiers_) {
      const double room = (kWidth - 20) / static_cast<double>(std::max<size_t>(1, tier.size())) - 4;
      for (const size_t index : tier) {
        const Box& box = boxes_[index];
        const double width = std::min(room, 72.0);
        const bool fits = width > 6.4 * static_cast<double>(box.name.size());
        svg += fmt::format(
            "<rect class=\"switch\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"4\"><title>{}"
            "{}</title></rect>",
            box.x - width / 2, box.y, width, kBox, escape_html(box.name),
            box.switches > 1 ? fmt::format(" and {} more", box.switches - 1) : "");
        const std::string label = box.switches > 1 ? fmt::format("x {}", box.switches)
                                  : fits           ? escape_html(box.name)
                                                   : "";
        svg += fmt::format("<text class=\"tiny\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", box.x,
                           box.y + 12.5, label);
      }
    }
    return svg;
  }

  // A square per host, its left half what it sent, its right half what it received.
  std::string hosts(double bottom) {
    std::string svg;
    for (const size_t index : tiers_.front()) {
      const Box& box = boxes_[index];
      if (box.hosts == 0) continue;
      const double room = (kWidth - 20) / static_cast<double>(tiers_.front().size()) - 6;
      size_t columns = 1;
      while (columns < 64 &&
             static_cast<double>((box.hosts + columns - 1) / columns) * room / static_cast<double>(columns) > 60)
        ++columns;
      const double side = std::min(room / static_cast<double>(columns), 14.0);
      constexpr size_t kHalf = 3;
      const size_t each = 2 * kHalf + (side > 4 ? 1 : 0);  // with a gap where it would be seen
      const size_t shown = std::min<size_t>(box.hosts, 4096);
      UseGrid grid;
      for (size_t i = 0; i < shown; ++i) {
        const auto level = [host = box.first_host + i](const std::vector<double>& use) {
          return host < use.size() ? use_level(use[host]) : 0;
        };
        grid.add(i / columns, i % columns * each, level(sent_), kHalf);
        grid.add(i / columns, i % columns * each + kHalf, level(received_), kHalf);
      }
      host_rows_ = std::max(host_rows_, static_cast<double>((shown + columns - 1) / columns) * side - 20);
      svg += grid.svg(box.x - side * static_cast<double>(columns) / 2, bottom - 20, side / static_cast<double>(each),
                      side);
    }
    return svg;
  }

  // Every cable of a large leaf-spine fabric: leaves down, spines across, upwards on the left.
  std::string matrix() const {
    if (cables_.size() <= kMostCables || tiers_.size() != 2) return "";
    std::map<size_t, size_t> row, column;
    for (size_t i = 0; i < switches_.size(); ++i)
      (switches_[i].tier == 1 ? row : column).emplace(i, (switches_[i].tier == 1 ? row : column).size());
    if (row.size() * column.size() > kMostMatrix || column.empty()) return "";
    const double width = 244.0 / static_cast<double>(column.size());
    const double height = std::min(width, 300.0 / static_cast<double>(row.size()));
    std::vector<std::pair<double, double>> fullest(row.size() * column.size());
    for (const Cable& cable : cables_) {
      auto& cell = fullest[row[cable.low] * column.size() + column[cable.high]];
      cell = {std::max(cell.first, cable.up), std::max(cell.second, cable.down)};
    }
    UseGrid up, down;
    for (size_t i = 0; i < fullest.size(); ++i) {
      up.add(i / column.size(), i % column.size(), use_level(fullest[i].first));
      down.add(i / column.size(), i % column.size(), use_level(fullest[i].second));
    }
    std::string svg =
        "<text class=\"axis\" x=\"8\" y=\"13\">leaf (down) to spine (across)</text><text class=\"axis\" x=\"268\" "
        "y=\"13\">spine (across) to leaf (down)</text>";
    svg += up.svg(8, 20, width, height) + down.svg(268, 20, width, height);
    return frame(kWidth, 24 + height * static_cast<double>(row.size()), "Use of every link between leaves and spines",
                 svg);
  }

  std::vector<Switch> switches_;
  std::vector<Box> boxes_;
  std::vector<std::vector<size_t>> tiers_;  // boxes, leaves first
  std::vector<Cable> cables_;
  std::vector<double> sent_, received_;
  double host_rows_ = 0;
};

}  // namespace

std::string fabric_picture(const json& document, const json& scheme) {
  return Picture(document, scheme).draw();
}

}  // namespace orrery::sim
