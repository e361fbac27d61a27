#include "tools/sim/scenario/map_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/base/nearest_name.h"

namespace orrery::sim {

using fabric::kind_name;
using fabric::quoted;
using fabric::YamlNode;
using Kind = YamlNode::Kind;

MapReader::MapReader(const YamlNode& map, std::string key, fabric::Mistakes& mistakes)
    : map_(map), key_(std::move(key)), mistakes_(mistakes), is_map_(map.kind == Kind::kMap) {
  if (!is_map_)
    mistakes_.add(map.line, key_, fmt::format("must be a map of keys and values, but is {}", kind_name(map)));
}

std::string MapReader::key_of(std::string_view name) const {
  return key_.empty() ? std::string(name) : fmt::format("{}.{}", key_, name);
}

void MapReader::mistake(std::string_view name, std::string text) const {
  uint32_t line = map_.line;
  for (size_t i = 0; i < map_.keys.size(); ++i)
    if (map_.keys[i].text == name) line = map_.items[i].line;
  mistakes_.add(line, name.empty() ? key_ : key_of(name), std::move(text));
}

const YamlNode* MapReader::find(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.push_back(name);
  for (size_t i = 0; is_map_ && i < map_.keys.size(); ++i)
    if (map_.keys[i].kind == Kind::kScalar && map_.keys[i].text == name) return &map_.items[i];
  return nullptr;
}

const YamlNode* MapReader::require(std::string_view name, std::string_view cure) {
  const YamlNode* node = find(name);
  if (node == nullptr && is_map_) mistakes_.add(map_.line, key_of(name), fmt::format("is missing; {}", cure));
  return node;
}

const YamlNode* MapReader::scalar(std::string_view name, std::string_view what) {
  const YamlNode* node = find(name);
  if (node == nullptr || node->kind == Kind::kScalar) return node;
  mistakes_.add(node->line, key_of(name), fmt::format("must be {}, but is {}", what, kind_name(*node)));
  return nullptr;
}

std::optional<uint64_t> MapReader::whole_of(std::string_view name, uint64_t low, uint64_t high) {
  const YamlNode* node = scalar(name, "a whole number");
  if (node == nullptr) return std::nullopt;
  uint64_t value = 0;
  const char* end = node->text.data() + node->text.size();
  const auto [stop, error] = std::from_chars(node->text.data(), end, value);
  if (stop == end && error == std::errc() && value >= low && value <= high) return value;
  if (stop != end || error == std::errc::invalid_argument)
    mistakes_.add(node->line, key_of(name),
                  fmt::format("{} is not a whole number; write digits only, such as 100000", quoted(node->text)));
  else
    mistakes_.add(node->line, key_of(name),
                  fmt::format("{} is out of range; give {} to {}", quoted(node->text), low, high));
  return std::nullopt;
}

bool MapReader::real(std::string_view name, double& value, double low, double high) {
  const YamlNode* node = scalar(name, "a number");
  if (node == nullptr) return false;
  double number = 0;
  const char* end = node->text.data() + node->text.size();
  const auto [stop, error] = std::from_chars(node->text.data(), end, number);
  if (stop != end || error != std::errc() || !std::isfinite(number)) {
    mistakes_.add(node->line, key_of(name), fmt::format("{} is not a number; write it as 0.05", quoted(node->text)));
    return false;
  }
  if (number < low || number > high) {
    mistakes_.add(node->line, key_of(name),
                  fmt::format("{} is out of range; give {} to {}", quoted(node->text), low, high));
    return false;
  }
  value = number;
  return true;
}

bool MapReader::time(std::string_view name, Time& value, Time unit) {
  constexpr double kMost = 1e6 * 1e12;  // a week and a half, in picoseconds
  double number = 0;
  if (!real(name, number, 0, kMost / static_cast<double>(unit))) return false;
  value = static_cast<Time>(std::llround(number * static_cast<double>(unit)));
  return true;
}

bool MapReader::flag(std::string_view name, bool& value) {
  const YamlNode* node = scalar(name, "true or false");
  if (node == nullptr) return false;
  if (node->text != "true" && node->text != "false") {
    mistakes_.add(node->line, key_of(name), fmt::format("{} is neither true nor false", quoted(node->text)));
    return false;
  }
  value = node->text == "true";
  return true;
}

bool MapReader::text(std::string_view name, std::string& value) {
  const YamlNode* node = scalar(name, "text");
  if (node == nullptr) return false;
  if (node->text.empty() || node->text.find('\0') != std::string::npos) {
    mistakes_.add(node->line, key_of(name), "is empty or holds a zero byte");
    return false;
  }
  value = node->text;
  return true;
}

void MapReader::unknown_word(std::string_view name, std::string_view word,
                             std::span<const std::string_view> names) const {
  mistake(name,
          fmt::format("{} is unknown; take {}{}", quoted(word), fmt::join(names, ", "), did_you_mean(word, names)));
}

const YamlNode* MapReader::list_of(std::string_view name, std::string_view cure) {
  const YamlNode* node = find(name);
  if (node == nullptr) return nullptr;
  if (node->kind == Kind::kList && !node->items.empty()) return node;
  mistakes_.add(node->line, key_of(name),
                fmt::format("must be a list, but is {}; {}",
                            node->kind == Kind::kList ? "an empty one" : std::string(kind_name(*node)), cure));
  return nullptr;
}

void MapReader::finish() {
  constexpr size_t kMostKeys = 1'000;
  if (map_.keys.size() > kMostKeys)
    return mistakes_.add(map_.line, key_, fmt::format("{} keys; no map here has so many", map_.keys.size()));
  for (size_t i = 0; is_map_ && i < map_.keys.size(); ++i) {
    const YamlNode& key = map_.keys[i];
    if (std::find(known_.begin(), known_.end(), key.text) == known_.end())
      mistakes_.add(key.line, key_,
                    fmt::format("unknown key {}; the keys here are {}{}", quoted(key.text), fmt::join(known_, ", "),
                                did_you_mean(key.text, known_)));
    const auto twin = std::find_if(map_.keys.begin(), map_.keys.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const YamlNode& other) { return other.text == key.text; });
    if (twin != map_.keys.begin() + static_cast<ptrdiff_t>(i))
      mistakes_.add(key.line, key_of(quoted(key.text)),
                    fmt::format("appears twice, first on line {}; remove one", twin->line));
  }
}

}  // namespace orrery::sim
