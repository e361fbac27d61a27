// What several commands' options and outputs need.
#include <fmt/format.h>

#include <fstream>
#include <ostream>

#include "controller/fabric/topology.h"
#include "tools/ctl/command.h"
#include "tools/ctl/quantity.h"

namespace orrery::ctl {
namespace {

template <typename T>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, T& value, const std::string& help,
                        Result<T> (*parse)(const std::string&)) {
  return app.add_option_function<std::string>(
      name,
      [name, &value, parse](const std::string& text) {
        const auto parsed = parse(text);
        if (!parsed) throw CLI::ValidationError(name, parsed.error().message);
        value = *parsed;
      },
      help);
}

Result<uint64_t> parse_rate(const std::string& text) {
  ORRERY_ASSIGN(const uint64_t bps, parse_quantity(text));
  if (bps >= fabric::kMinRateBps && bps <= fabric::kMaxRateBps) return bps;
  return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is out of range; give a rate from 1k to 10T", text)};
}

}  // namespace

CLI::Option* add_quantity(CLI::App& app, const std::string& name, uint64_t& value, const std::string& help) {
  return add_parsed(app, name, value, help, &parse_quantity);
}

CLI::Option* add_rate(CLI::App& app, const std::string& name, uint64_t& bps, const std::string& help) {
  return add_parsed(app, name, bps, help, &parse_rate);
}

CLI::Option* add_ratio(CLI::App& app, const std::string& name, double& value, const std::string& help) {
  return add_parsed(app, name, value, help, &parse_ratio);
}

Status write_text(const std::string& path, const std::string& text, std::ostream& out) {
  if (path.empty() || path == "-") {
    out << text;
    return {};
  }
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    return Error{ErrorCode::kSystem,
                 fmt::format("cannot write {}; check that the folder exists and is writable", path)};
  return {};
}

}  // namespace orrery::ctl
