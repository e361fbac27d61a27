#include "tools/ctl/quantity.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

namespace orrery::ctl {
namespace {

struct Suffix {
  std::string_view name;
  double factor;
};
constexpr std::array kSuffixes{Suffix{"", 1},        Suffix{"k", 1e3},        Suffix{"K", 1e3},
                               Suffix{"M", 1e6},     Suffix{"G", 1e9},        Suffix{"T", 1e12},
                               Suffix{"Ki", 1024.0}, Suffix{"Mi", 1048576.0}, Suffix{"Gi", 1073741824.0}};

bool parse_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<uint64_t> parse_quantity(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error == std::errc{} && value >= 0)
    for (const Suffix& suffix : kSuffixes)
      if (rest == suffix.name && value * suffix.factor < 1e18)
        return static_cast<uint64_t>(value * suffix.factor + 0.5);
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no quantity: write a number, with k, M, G, T, Ki, Mi or Gi where it helps", text)};
}

Result<double> parse_ratio(const std::string& text) {
  const size_t colon = text.find(':');
  double first = 0, second = 1;
  const bool parsed = parse_number(std::string_view(text).substr(0, colon), first) &&
                      (colon == std::string::npos || parse_number(std::string_view(text).substr(colon + 1), second));
  if (parsed && second > 0 && first >= second && first / second <= 1e6) return first / second;
  return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is no ratio of 1:1 or more: write 4:1, or 1.5", text)};
}

}  // namespace orrery::ctl
