// Text tables: columns as wide as their widest cell, numbers to the right. And sizes, rates and times as people read
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::ctl {

enum class Align : uint8_t { kLeft, kRight };
enum class Tone : uint8_t { kPlain, kGood, kWarning, kBad, kDim, kBold };

// `text` in the tone's colour, or as it is when `colour` is false.
std::string toned(std::string_view text, Tone tone, bool colour);

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  struct Cell {
    Cell(std::string cell_text) : text(std::move(cell_text)) {}
    Cell(const char* cell_text) : text(cell_text) {}
    Cell(std::string cell_text, Tone cell_tone) : text(std::move(cell_text)), tone(cell_tone) {}
    std::string text;
    Tone tone = Tone::kPlain;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty, surplus ones dropped.
  void add_row(std::vector<Cell> cells);
  size_t rows() const { return rows_.size(); }
  // Title line, then one line per row, no trailing blanks. Control characters in cells are shown as '?'.
  std::string to_string(bool colour = false) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Columns that `text` takes on a terminal, counting each UTF-8 character as one.
size_t display_width(std::string_view text);

std::string human_bytes(uint64_t bytes);     // "1.5 MiB"
std::string human_rate(uint64_t bps);        // "100 Mbit/s"
std::string human_duration(int64_t ns);      // "12.3 ms"
std::string human_percent(double fraction);  // "12.3 %"
std::string human_count(uint64_t count);     // "12,345"
// A bar of `width` cells filled to `fraction` (clamped to 0..1).
std::string bar(double fraction, size_t width);

}  // namespace orrery::ctl
