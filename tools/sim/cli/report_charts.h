// Charts of the report as SVG text. Each takes a result document (document.h).
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::sim {

std::string escape_html(std::string_view text);
// Escaped, and with its middle left out where it has more than so many bytes.
std::string shortened(std::string_view text, size_t most);
// Class of scheme number `index`, which gives it its colour everywhere.
std::string series_class(size_t index);

// Numbers of a document that may be anything: 0 when there is none.
double number(const nlohmann::json& object, const char* key);
// The scheme's name, escaped.
std::string scheme_name(const nlohmann::json& scheme);
// Round marks from 0 to at least `top`.
std::vector<double> ticks(double top);
// An SVG of that size, which grows with its place.
std::string frame(double width, double height, const std::string& label, const std::string& inner);
// "0".."8" of u0..u8: how full a link is, 0 to 1.
size_t use_level(double share);

// A grid of cells, one level of use each, to be given row by row from the left. Neighbours of a row that are alike are
// one stroke, so that thousands of cells stay small.
class UseGrid {
 public:
  void add(size_t row, size_t column, size_t level, size_t columns = 1);
  // With cells of that size, and a gap below each row where it would be seen.
  std::string svg(double x, double y, double width, double height);

 private:
  void end_run();
  std::array<std::string, 9> strokes_;  // by level
  size_t row_ = 0, begin_ = 0, end_ = 0, level_ = 0;
};
// Levels of use as history.h encodes them, as shares; what is no level counts as 0.
std::vector<double> decode_use(const nlohmann::json& object, const char* key);

// A row per job, where there are several: its mean under every scheme beside the ideal's.
std::string job_table(const nlohmann::json& document);
// Mean and P99 of every scheme as bars, the ideal as a dashed line.
std::string ablation_bars(const nlohmann::json& document);
// What each part of a plan adds: scheme by scheme from hashing to all of it, in words and figures.
std::string ablation_steps(const nlohmann::json& document);
// Share of iterations that took at most so long, a line per scheme.
std::string iteration_cdf(const nlohmann::json& document);
// A row per scheme, a cell per link between switches: bytes beside an even share, first seed.
std::string link_heat(const nlohmann::json& document);

// Those below are of one scheme with a history, else empty.

// Switches in tiers, hosts below, links coloured by use over the run; of large fabrics bundles of links, and every
// cable as a cell.
std::string fabric_picture(const nlohmann::json& document, const nlohmann::json& scheme);
// A row per link (or group of links), a column per slice of time.
std::string time_heat(const nlohmann::json& scheme);
// Sending rate of the busiest, the median and the idlest NIC over time, and of one to be chosen.
std::string nic_waves(const nlohmann::json& document, const nlohmann::json& scheme);

// Share of time that queues were at most so deep, a line per scheme; `ports`: "between switches" or "towards hosts".
std::string queue_cdf(const nlohmann::json& document, const char* ports);

}  // namespace orrery::sim
