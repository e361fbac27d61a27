#include "tools/ctl/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace orrery::ctl {
namespace {

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

// Three significant digits without trailing zeros: "1.5", "12.3", "100".
std::string short_number(double value) {
  std::string text = fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string scaled(double value, double step, std::span<const std::string_view> units) {
  size_t unit = 0;
  // 999.5 would print as "1000" of the smaller unit.
  while (unit + 1 < units.size() && value >= step - 0.5) {
    value /= step;
    ++unit;
  }
  return fmt::format("{} {}", short_number(value), units[unit]);
}

}  // namespace

std::string toned(std::string_view text, Tone tone, bool colour) {
  static constexpr std::array<std::string_view, 6> kCodes = {"", "32", "33", "31", "2", "1"};
  const std::string_view code = kCodes[static_cast<size_t>(tone)];
  if (!colour || code.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void Table::add_row(std::vector<Cell> cells) {
  cells.resize(columns_.size(), Cell(""));
  for (Cell& cell : cells) cell.text = printable(std::move(cell.text));
  rows_.push_back(std::move(cells));
}

std::string Table::to_string(bool colour) const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i].text));
  std::string out;
  const auto append_line = [&](const std::vector<Cell>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - display_width(cells[i].text), ' ');
      if (i != 0) line += "  ";
      const std::string text = toned(cells[i].text, cells[i].tone, colour);
      line += columns_[i].align == Align::kRight ? padding + text : text + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Tone::kBold);
  append_line(titles);
  for (const auto& row : rows_) append_line(row);
  return out;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string human_bytes(uint64_t bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return scaled(static_cast<double>(bytes), 1024, kUnits);
}

std::string human_rate(uint64_t bps) {
  static constexpr std::string_view kUnits[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
  return scaled(static_cast<double>(bps), 1000, kUnits);
}

std::string human_duration(int64_t ns) {
  const double magnitude = std::abs(static_cast<double>(ns));
  const std::string_view sign = ns < 0 ? "-" : "";
  if (magnitude >= 119.5e9)
    return fmt::format("{}{} min {} s", sign, static_cast<int64_t>(magnitude / 60e9),
                       static_cast<int64_t>(std::fmod(magnitude / 1e9, 60)));
  static constexpr std::string_view kUnits[] = {"ns", "us", "ms", "s"};
  return fmt::format("{}{}", sign, scaled(magnitude, 1000, kUnits));
}

std::string human_percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f} %", fraction * 100) : "-";
}

std::string human_count(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string bar(double fraction, size_t width) {
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const size_t filled = static_cast<size_t>(std::lround(clamped * static_cast<double>(width)));
  return std::string(filled, '#') + std::string(width - filled, '.');
}

}  // namespace orrery::ctl
