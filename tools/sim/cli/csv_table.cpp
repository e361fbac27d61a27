#include "tools/sim/cli/csv_table.h"

#include <fmt/format.h>

#include <cstdio>

#include "common/base/digest.h"

namespace orrery::sim {
namespace {

// Scheme and seed: no scheme's name needs quotes.
std::string_view run_of_line(std::string_view line) {
  const size_t scheme = line.find(',');
  return line.substr(0, scheme == std::string_view::npos ? scheme : line.find(',', scheme + 1));
}

}  // namespace

std::vector<CsvBlock> CsvTable::blocks() const {
  std::vector<CsvBlock> blocks;
  std::ifstream file(path_, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line != header_) return blocks;
  uint64_t offset = line.size() + 1;
  Digest digest;
  const auto end_block = [&] {
    if (blocks.empty()) return;
    blocks.back().bytes = offset - blocks.back().offset;
    blocks.back().digest = digest.text();
    digest = {};
  };
  while (std::getline(file, line)) {
    const std::string_view run = run_of_line(line);
    if (blocks.empty() || blocks.back().run != run) {
      end_block();
      blocks.push_back({.run = std::string(run), .digest = {}, .offset = offset});
    }
    digest.add_bytes(line);
    if (!file.eof()) digest.add_bytes("\n");  // a torn line has none
    offset += line.size() + 1;
  }
  end_block();
  return blocks;
}

Status CsvTable::open(const std::vector<CsvBlock>& kept) {
  const std::string beside = path_ + ".new";
  file_.open(beside, std::ios::binary | std::ios::trunc);
  file_ << header_ << '\n';
  std::ifstream old(path_, std::ios::binary);
  std::vector<char> buffer(1 << 16);
  for (const CsvBlock& block : kept) {
    old.seekg(static_cast<std::streamoff>(block.offset));
    for (uint64_t left = block.bytes; left > 0 && old && file_;) {
      const auto part = static_cast<std::streamsize>(std::min<uint64_t>(left, buffer.size()));
      old.read(buffer.data(), part);
      file_.write(buffer.data(), old.gcount());
      left -= static_cast<uint64_t>(part);
    }
  }
  file_.flush();
  if (file_ && (kept.empty() || old) && std::rename(beside.c_str(), path_.c_str()) == 0) return {};
  std::remove(beside.c_str());
  return Error{ErrorCode::kSystem, fmt::format("cannot write {}; is the folder there and writable?", path_)};
}

std::string CsvTable::add(std::string_view lines) {
  Digest digest;
  digest.add_bytes(lines);
  file_ << lines << std::flush;
  return digest.text();
}

Status CsvTable::close() {
  file_.close();
  if (file_) return {};
  return Error{ErrorCode::kSystem, fmt::format("cannot write {} to its end; is the disk full?", path_)};
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += c;
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace orrery::sim
