// The mistakes found in one file, gathered so that all are reported at once. Bounded: only the first kShown are kept,
// the rest counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace orrery::fabric {

class Mistakes {
 public:
  static constexpr size_t kShown = 200;

  explicit Mistakes(std::string file) : file_(std::move(file)) {}

  // `line` counts from 1; 0: not from a file. `text` says what is wrong and what to do.
  void add(uint32_t line, std::string key, std::string text);
  bool empty() const { return count_ == 0; }
  // Hints cost a search over all names: not worth it for mistakes that are not shown.
  bool full() const { return kept_.size() >= kShown; }
  // One line per mistake, in the order of the file.
  Error to_error() const;

 private:
  struct Mistake {
    uint32_t line;
    std::string key;
    std::string text;
  };
  std::string file_;
  std::vector<Mistake> kept_;
  size_t count_ = 0;
};

// `text` fit for an error message: control characters and what follows the 64th byte replaced.
std::string quoted(std::string_view text);

}  // namespace orrery::fabric
