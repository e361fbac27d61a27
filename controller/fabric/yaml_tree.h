// YAML text as a plain tree with line numbers. The adapter around yaml-cpp: its exceptions end here, and what it would
// forgive (repeated keys, several documents) or let explode (aliases, depth, size) is seen or refused here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "controller/fabric/mistakes.h"

namespace orrery::fabric {

struct YamlNode {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  bool was_quoted = false;      // scalars
  uint32_t line = 0;            // from 1
  std::string text;             // scalars
  std::vector<YamlNode> keys;   // maps: scalars, one per item, repeats included
  std::vector<YamlNode> items;  // list items, or the values of a map
};

inline constexpr size_t kYamlMaxBytes = 32u << 20;
inline constexpr size_t kYamlMaxDepth = 16;
inline constexpr size_t kYamlMaxNodes = 4'000'000;
inline constexpr size_t kYamlMaxScalarBytes = 4096;

// A null node, and a mistake in `mistakes`, when the text is not YAML within the limits.
YamlNode parse_yaml(std::string_view yaml, Mistakes& mistakes);

// For messages: "a list".
std::string_view kind_name(const YamlNode& node);

}  // namespace orrery::fabric
