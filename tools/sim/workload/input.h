// Input of the readers: files of bounded size, and messages that name a place in one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace orrery::sim {

// At most `limit` bytes. Errors: kNotFound, kSystem; kInvalidArgument when the file has more. `what` for messages:
// "the workload".
Result<std::string> read_file(const std::string& path, size_t limit, std::string_view what);

// Longest line of a text file; longer ones are no lines of what is read here.
inline constexpr size_t kMaxLineBytes = 64u << 10;
// The same for text: without a byte order mark. Errors also, with the line: a zero byte (UTF-16, or no text at all),
// and a line of more than `longest_line`.
Result<std::string> read_text(const std::string& path, size_t limit, std::string_view what,
                              size_t longest_line = kMaxLineBytes);

// "NAME:LINE: what", kInvalidArgument; `line` counts from 1.
Error line_error(std::string_view name, uint64_t line, std::string_view what);
// "NAME: byte OFFSET: what", kInvalidArgument.
Error byte_error(std::string_view name, uint64_t offset, std::string_view what);

// Text fit for a message: short, without control characters, in quotes.
std::string shown(std::string_view text);

// The next line of `text` from `position` on, without its end; moves `position` behind it. Empty at the end, where
// position == text.size().
std::string_view next_line(std::string_view text, size_t& position);

std::string_view trimmed(std::string_view text);
// What blanks and tabs part.
std::vector<std::string_view> words_of(std::string_view line);

// Digits only, all of it.
bool parse_whole(std::string_view text, uint64_t& value);
// Finite.
bool parse_real(std::string_view text, double& value);

}  // namespace orrery::sim
