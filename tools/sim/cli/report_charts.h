// Charts of the report as SVG text. Each takes a result document (document.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace orrery::sim {

std::string escape_html(std::string_view text);
// Class of scheme number `index`, which gives it its colour everywhere.
std::string series_class(size_t index);

// Mean and P99 of every scheme as bars, the ideal as a dashed line.
std::string ablation_bars(const nlohmann::json& document);
// Share of iterations that took at most so long, a line per scheme.
std::string iteration_cdf(const nlohmann::json& document);
// A row per scheme, a cell per link between switches: bytes beside an even share, first seed.
std::string link_heat(const nlohmann::json& document);

}  // namespace orrery::sim
