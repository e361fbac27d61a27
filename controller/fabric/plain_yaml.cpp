#include "controller/fabric/plain_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace orrery::fabric {
namespace {

class Scanner {
 public:
  Scanner(std::string_view yaml, Mistakes& mistakes) : yaml_(yaml), mistakes_(mistakes) {}

  bool run() {
    if (yaml_.starts_with("\xfe\xff") || yaml_.starts_with("\xff\xfe") || yaml_.find('\0') != std::string_view::npos)
      return refuse(0, "not plain text in UTF-8; convert it, for example with iconv -t UTF-8");
    for (size_t start = 0; start < yaml_.size(); ++line_) {
      const size_t end = std::min(yaml_.find('\n', start), yaml_.size());
      if (!scan_line(start, end)) return false;
      start = end + 1;
    }
    return true;
  }

 private:
  bool refuse(uint32_t line, std::string text) {
    mistakes_.add(line, "", std::move(text));
    return false;
  }

  bool scan_line(size_t start, size_t end) {
    std::string_view line = yaml_.substr(start, end - start);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > kYamlMaxLineBytes)
      return refuse(line_, fmt::format("a line of more than {} bytes; break it", kYamlMaxLineBytes));
    if (depth_ > 0 && end - bracket_start_ > kYamlMaxBracketBytes)
      return refuse(bracket_line_,
                    fmt::format("a bracket not closed within {} bytes; close it, or write a long list as lines of '- '",
                                kYamlMaxBracketBytes));
    if (line.starts_with('%')) return refuse(line_, "directives (%) are not accepted; remove the line");
    for (size_t at = 0; at < line.size(); ++at) {
      const char c = line[at];
      if (c == '#') {
        if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') return no_return(line.substr(at));
        return refuse(line_, "a '#' within a value; put a blank before a comment");
      }
      if (c == '\'' || c == '"') {
        const size_t close = line.find(c, at + 1);
        if (close == std::string_view::npos ||
            line.substr(at + 1, close - at - 1).find_first_of("[]{}#\\'\"") != std::string_view::npos)
          return refuse(
              line_, "quotes enclose a simple text on one line, without brackets, '#' or escapes; remove the quotes");
        at = close;
      } else if (c == '!' || c == '\r') {
        return refuse(line_,
                      c == '!' ? "tags (!) are not accepted; remove it" : "a carriage return within a line; remove it");
      } else if (c == '[' || c == '{') {
        if (depth_++ == 0) {
          bracket_line_ = line_;
          bracket_start_ = start + at;
        }
      } else if ((c == ']' || c == '}') && depth_ > 0) {
        --depth_;
      }
    }
    return true;
  }

  // yaml-cpp ends a comment at a carriage return.
  bool no_return(std::string_view comment) {
    return comment.find('\r') == std::string_view::npos || refuse(line_, "a carriage return within a line; remove it");
  }

  std::string_view yaml_;
  Mistakes& mistakes_;
  uint32_t line_ = 1;
  size_t depth_ = 0;
  uint32_t bracket_line_ = 0;
  size_t bracket_start_ = 0;
};

}  // namespace

bool check_plain_yaml(std::string_view yaml, Mistakes& mistakes) {
  return Scanner(yaml, mistakes).run();
}

}  // namespace orrery::fabric
