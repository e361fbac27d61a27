// "did you mean": the nearest of a set of valid names, for error messages about unknown keys, commands and elements.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace orrery {

// Empty when nothing is near enough to be a plausible slip: an edit distance of at most a third of the longer name (at
// least 2), or a name that `wrong` (of three letters or more) is the beginning of.
std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> valid);

// ", did you mean 'x'?" or "".
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> valid);

}  // namespace orrery
