// The part of YAML that a topology file may use, checked before yaml-cpp sees the text.
//
// yaml-cpp holds every token of a line, and of an outermost bracket, that might yet be a key, at some 250 bytes each: a
// hostile file of a few megabytes would cost gigabytes. Both extents are bounded here, which takes knowing where
// brackets begin and end; so whatever could hide a bracket is refused: quotes around more than simple text, tags,
// directives, encodings other than UTF-8. A topology needs none of them.
#pragma once

#include <string_view>

#include "controller/fabric/mistakes.h"

namespace orrery::fabric {

inline constexpr size_t kYamlMaxLineBytes = 64u << 10;
inline constexpr size_t kYamlMaxBracketBytes = 1u << 20;  // from an outermost [ or { to its end

// Reports the first thing refused, with its line and cure; true when there is none.
bool check_plain_yaml(std::string_view yaml, Mistakes& mistakes);

}  // namespace orrery::fabric
