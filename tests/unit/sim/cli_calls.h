// Calls of orrery-sim within a test.
#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/sim/cli/cli.h"

namespace orrery::sim {

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

inline Outcome call(std::vector<std::string> arguments) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const int code = run(arguments, console);
  return {code, out.str(), err.str()};
}

// Small enough to take a moment.
inline std::vector<std::string> small_run(std::vector<std::string> more) {
  std::vector<std::string> words{"run",     "--leaves", "2",        "--spines", "4",       "--hosts", "8",
                                 "--bytes", "2M",       "--rounds", "2",        "--seeds", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The same with another value of an option.
inline std::vector<std::string> with(std::vector<std::string> words, const std::string& option,
                                     const std::string& value) {
  const auto at = std::find(words.begin(), words.end(), option);
  if (at == words.end()) throw std::invalid_argument(option);
  *(at + 1) = value;
  return words;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// A result but for how long it took to compute.
inline std::string without_timings(std::string text) {
  for (size_t at = text.find("\"cpu_s\""); at != std::string::npos; at = text.find("\"cpu_s\"", at))
    text.erase(at, text.find_first_of(",}", at) - at);
  return text;
}

}  // namespace orrery::sim
