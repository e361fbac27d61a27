#include <fmt/format.h>

#include <fstream>

#include "tools/sim/cli/command.h"

namespace orrery::sim {

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (file) return {};
  return cannot_write(path);
}

Error cannot_write(const std::string& path) {
  return {ErrorCode::kSystem, fmt::format("cannot write {}; check that the folder exists and is writable", path)};
}

}  // namespace orrery::sim
