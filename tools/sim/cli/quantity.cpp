#include <fmt/format.h>

#include <array>
#include <charconv>
#include <fstream>

#include "tools/sim/cli/command.h"

namespace orrery::sim {
namespace {

struct Suffix {
  std::string_view name;
  double factor;
};
constexpr std::array kSuffixes{Suffix{"", 1},        Suffix{"k", 1e3},        Suffix{"K", 1e3},
                               Suffix{"M", 1e6},     Suffix{"G", 1e9},        Suffix{"T", 1e12},
                               Suffix{"Ki", 1024.0}, Suffix{"Mi", 1048576.0}, Suffix{"Gi", 1073741824.0}};

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

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (file) return {};
  return Error{ErrorCode::kSystem, fmt::format("cannot write {}; check that the folder exists and is writable", path)};
}

}  // namespace orrery::sim
