#include "tools/sim/workload/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "common/base/unique_fd.h"
#include "controller/fabric/mistakes.h"

namespace orrery::sim {

Result<std::string> read_file(const std::string& path, size_t limit, std::string_view what) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    Error error = system_error(fmt::format("cannot read {} {}", what, path), errno);
    if (errno == ENOENT) error.code = ErrorCode::kNotFound;
    return error;
  }
  std::string text;
  char chunk[65536];
  for (;;) {
    const ssize_t count = ::read(fd.get(), chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(fmt::format("cannot read {} {}", what, path), errno);
    if (count == 0) return text;
    text.append(chunk, static_cast<size_t>(count));
    if (text.size() > limit)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: more than {} bytes; {} has no more: take a part of it", path, limit, what)};
  }
}

Result<std::string> read_text(const std::string& path, size_t limit, std::string_view what, size_t longest_line) {
  ORRERY_ASSIGN(std::string text, read_file(path, limit, what));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // as spreadsheets write it
  uint64_t line = 0;
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    const std::string_view part = next_line(text, position);
    ++line;
    if (part.find('\0') != std::string_view::npos)
      return line_error(path, line,
                        fmt::format("a zero byte; {} is text in UTF-8: convert it with iconv -t UTF-8", what));
    if (position - start > longest_line)
      return line_error(path, line, fmt::format("a line of more than {} bytes; is it {}?", longest_line, what));
  }
  return text;
}

Error line_error(std::string_view name, uint64_t line, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", name, line, what)};
}

Error byte_error(std::string_view name, uint64_t offset, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("{}: byte {}: {}", name, offset, what)};
}

std::string shown(std::string_view text) {
  return fabric::quoted(text);
}

std::string_view next_line(std::string_view text, size_t& position) {
  const size_t end = std::min(text.find('\n', position), text.size());
  std::string_view line = text.substr(position, end - position);
  position = std::min(end + 1, text.size());
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t start = 0; (start = line.find_first_not_of(" \t", start)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t", start), line.size());
    words.push_back(line.substr(start, end - start));
    start = end;
  }
  return words;
}

bool parse_whole(std::string_view text, uint64_t& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

bool parse_real(std::string_view text, double& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && std::isfinite(value);
}

}  // namespace orrery::sim
