#include "common/config/value.h"

#include <fmt/ranges.h>

#include <charconv>

namespace orrery::config {
namespace {

Error expected(std::string what, std::string_view text) {
  return {ErrorCode::kInvalidArgument, fmt::format("'{}' is not {}", text, what)};
}

template <typename T>
Result<T> parse_in_range(std::string_view text, T low, T high, std::string_view kind) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  const bool whole = stop == end && !text.empty();
  if (whole && fault == std::errc{} && value >= low && value <= high) return value;
  return expected(fmt::format("{} from {} to {}", kind, low, high), text);
}

}  // namespace

Result<int64_t> parse_signed(std::string_view text, int64_t low, int64_t high) {
  return parse_in_range(text, low, high, "an integer");
}

Result<uint64_t> parse_unsigned(std::string_view text, uint64_t low, uint64_t high) {
  return parse_in_range(text, low, high, "an integer");
}

Result<double> parse_real(std::string_view text, double low, double high) {
  return parse_in_range(text, low, high, "a number");
}

Result<bool> parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return expected("'true' or 'false'", text);
}

List parse_list(std::string_view text) {
  List list;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view element = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    while (!element.empty() && element.front() == ' ') element.remove_prefix(1);
    while (!element.empty() && element.back() == ' ') element.remove_suffix(1);
    if (!element.empty()) list.emplace_back(element);
  }
  return list;
}

std::string print_list(const List& list) {
  return fmt::format("{}", fmt::join(list, ","));
}

}  // namespace orrery::config
