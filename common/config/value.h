// Texts to typed values and back: what a configuration key may hold.
//
// Each parse function returns a kInvalidArgument error that says what was expected; the caller adds where and which
// key.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace orrery::config {

using List = std::vector<std::string>;

template <typename T>
concept Number = std::same_as<T, double> ||(std::integral<T> && !std::same_as<T, bool>);
template <typename T>
concept Value = Number<T> || std::same_as<T, bool> || std::same_as<T, std::string> || std::same_as<T, List>;

Result<int64_t> parse_signed(std::string_view text, int64_t low, int64_t high);
Result<uint64_t> parse_unsigned(std::string_view text, uint64_t low, uint64_t high);
Result<double> parse_real(std::string_view text, double low, double high);
Result<bool> parse_boolean(std::string_view text);
// Comma-separated; blanks around an element do not count; an empty text is an empty list.
List parse_list(std::string_view text);
std::string print_list(const List& list);

template <Value T>
constexpr std::string_view type_name() {
  if constexpr (std::same_as<T, bool>) return "boolean";
  if constexpr (std::same_as<T, double>) return "real";
  if constexpr (std::same_as<T, std::string>) return "text";
  if constexpr (std::same_as<T, List>) return "list of text";
  return "integer";
}

template <Value T>
std::string print_value(const T& value) {
  if constexpr (std::same_as<T, List>)
    return print_list(value);
  else
    return fmt::format("{}", value);
}

template <Number T>
Result<T> parse_number(std::string_view text, T low, T high) {
  if constexpr (std::same_as<T, double>) {
    return parse_real(text, low, high);
  } else if constexpr (std::signed_integral<T>) {
    ORRERY_ASSIGN(const int64_t value, parse_signed(text, low, high));
    return static_cast<T>(value);
  } else {
    ORRERY_ASSIGN(const uint64_t value, parse_unsigned(text, low, high));
    return static_cast<T>(value);
  }
}

}  // namespace orrery::config
