// Reads the keys of one YAML map; what nobody has asked for is reported as unknown.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/fabric/mistakes.h"
#include "controller/fabric/yaml_tree.h"
#include "tools/sim/model/types.h"

namespace orrery::sim {

class MapReader {
 public:
  // `key` is where the map stands, for messages: "jobs[0].steps[3]". `map` outlives it.
  MapReader(const fabric::YamlNode& map, std::string key, fabric::Mistakes& mistakes);

  bool is_map() const { return is_map_; }
  uint32_t line() const { return map_.line; }
  std::string key_of(std::string_view name) const;
  fabric::Mistakes& mistakes() const { return mistakes_; }
  void mistake(std::string_view name, std::string text) const;

  // Null when absent.
  const fabric::YamlNode* find(std::string_view name);
  // The same, and a mistake.
  const fabric::YamlNode* require(std::string_view name, std::string_view cure);

  // Each leaves `value` as it is when the key is absent or wrong, and returns whether it was set.
  template <typename T>
  bool whole(std::string_view name, T& value, uint64_t low, uint64_t high) {
    const std::optional<uint64_t> number = whole_of(name, low, high);
    if (number) value = static_cast<T>(*number);
    return number.has_value();
  }
  bool real(std::string_view name, double& value, double low, double high);
  bool time(std::string_view name, Time& value, Time unit);
  bool flag(std::string_view name, bool& value);
  bool text(std::string_view name, std::string& value);
  // `parse`: name -> optional value. `names`: what it takes, for the message.
  template <typename T, typename Parse>
  bool choice(std::string_view name, T& value, Parse parse, std::span<const std::string_view> names) {
    std::string word;
    if (!text(name, word)) return false;
    const auto parsed = parse(word);
    if (parsed)
      value = *parsed;
    else
      unknown_word(name, word, names);
    return parsed.has_value();
  }
  // The items of a list, which must not be empty; calls read(node, index).
  template <typename Read>
  void each(std::string_view name, std::string_view cure, Read read) {
    const fabric::YamlNode* list = list_of(name, cure);
    if (list == nullptr) return;
    for (size_t i = 0; i < list->items.size(); ++i) read(list->items[i], i);
  }

  void unknown_word(std::string_view name, std::string_view word, std::span<const std::string_view> names) const;
  // To be called when all keys have been asked for.
  void finish();

 private:
  const fabric::YamlNode* scalar(std::string_view name, std::string_view what);
  const fabric::YamlNode* list_of(std::string_view name, std::string_view cure);
  std::optional<uint64_t> whole_of(std::string_view name, uint64_t low, uint64_t high);

  const fabric::YamlNode& map_;
  std::string key_;
  fabric::Mistakes& mistakes_;
  bool is_map_;
  std::vector<std::string_view> known_;
};

}  // namespace orrery::sim
