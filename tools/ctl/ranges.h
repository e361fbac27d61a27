// Bounds of numeric options. CLI11's own take NaN for a number within any bounds, and print limits of 300 digits.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

namespace orrery::ctl {

inline CLI::Validator within(double low, double high) {
  const std::string range = fmt::format("{} to {}", low, high);
  return CLI::Validator(
      [low, high, range](std::string& text) -> std::string {
        double value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool good = stop == end && error == std::errc{} && value >= low && value <= high;  // NaN is neither
        return good ? "" : fmt::format("{} is no number from {}", text, range);
      },
      range);
}

// Of whole numbers.
inline CLI::Validator positive() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        return text.empty() || text.find_first_not_of("+0") == std::string::npos || text[0] == '-'
                   ? fmt::format("{} is not 1 or more", text)
                   : "";
      },
      "POSITIVE");
}

}  // namespace orrery::ctl
