// The typed table of one binary's configuration: every key with its type, unit, default, range and help, bound to a
// member of a struct.
//
//   struct Config { std::string socket_path; uint32_t window_ms; };
//   Config config;
//   config::Table table("orrery-agent");
//   table.key("agent.socket_path", config.socket_path, "/run/orrery/agent.sock", {.help = "..."})
//       .key("agent.window_ms", config.window_ms, 10, {.unit = "ms", .low = 1, .high = 1000, .help = "..."});
//   const std::vector<Fault> faults = table.load(sources);
//
// Precedence: default < YAML file < environment ORRERY_<SECTION>_<NAME> < flag. The bound members must outlive the
// table; after load() each holds its value, or its default where that value was at fault. Not thread-safe: used by main
// before anything else starts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/value.h"

namespace orrery::config {

// `where`: "agent.yaml:12", "environment ORRERY_AGENT_HOST", "flag"; empty when no source named the key.
struct Fault {
  std::string where;
  std::string key;  // empty when the fault is not about a key (a file that does not parse)
  std::string message;

  std::string to_string() const;
};

template <Value T>
struct KeyOptions {
  std::string_view unit = "";
  T low{}, high{};                             // numbers: inclusive range; low == high: the type's own range
  std::vector<std::string_view> choices = {};  // text: the only values allowed; none: any
  bool required = false;                       // must not be empty: there is no useful default
  std::string_view help;
};

struct Sources {
  std::string file;                                              // path of a YAML file; empty: none
  std::vector<std::pair<std::string, std::string>> environment;  // NAME, value; names of other programs do no harm
  std::vector<std::pair<std::string, std::string>> flags;        // key, value; in order, the last one wins
};

class Table {
 public:
  // What is known of one key, for --print-config and the generated reference.
  struct Key {
    std::string name, type, unit, range, fallback, help;
    bool required = false;
    std::string origin = "default";  // source of the present value
    std::function<Status(std::string_view)> assign;
    std::function<std::string()> print;
  };

  explicit Table(std::string program) : program_(std::move(program)) {}

  template <Value T>
  Table& key(std::string_view name, T& target, std::type_identity_t<T> fallback, KeyOptions<T> options);

  // A check across keys, run when all values are in place: returns what is wrong with `name` given the others, or "".
  Table& rule(std::string_view name, std::function<std::string()> check);

  // An ORRERY_ variable that looks like a key's but belongs to another program.
  Table& ignore_environment(std::string_view variable);

  // Takes the values of all sources. Every fault of every source is returned, in the order file, environment, flags,
  // rules.
  std::vector<Fault> load(const Sources& sources);

  const std::string& program() const { return program_; }
  const std::vector<Key>& keys() const { return keys_; }
  // "key = value  # origin" lines in the order of the table.
  std::string print() const;
  // The reference page, Markdown. Deterministic: a golden test compares it with docs/reference/config-<program>.md.
  std::string reference() const;

 private:
  Key& add(std::string_view name, std::string_view type, std::string_view unit, std::string_view help, bool required);
  Key* find(std::string_view name);
  std::string unknown_key(std::string_view name) const;
  void assign(std::string_view name, std::string_view value, const std::string& where, std::vector<Fault>& faults);
  void load_file(const std::string& path, std::vector<Fault>& faults);
  void load_environment(const Sources& sources, std::vector<Fault>& faults);
  void check_required(std::vector<Fault>& faults) const;

  std::string program_;
  std::vector<Key> keys_;
  std::vector<std::pair<std::string, std::function<std::string()>>> rules_;
  std::vector<std::string> ignored_environment_;
};

// "ORRERY_AGENT_SOCKET_PATH" for "agent.socket_path".
std::string environment_name(std::string_view key);
// "'x' is not one of a, b, c" with the nearest of them, or success.
Status check_choice(std::string_view value, const std::vector<std::string_view>& choices);

template <Value T>
Table& Table::key(std::string_view name, T& target, std::type_identity_t<T> fallback, KeyOptions<T> options) {
  Key& key = add(name, type_name<T>(), options.unit, options.help, options.required);
  key.fallback = print_value<T>(fallback);
  key.print = [&target] { return print_value<T>(target); };
  if constexpr (Number<T>) {
    const bool bounded = options.low != options.high;
    const T low = bounded ? options.low : std::numeric_limits<T>::lowest();
    const T high = bounded ? options.high : std::numeric_limits<T>::max();
    if (bounded) key.range = fmt::format("{} – {}", low, high);
    key.assign = [&target, low, high](std::string_view text) -> Status {
      ORRERY_ASSIGN(target, parse_number<T>(text, low, high));
      return {};
    };
  } else if constexpr (std::same_as<T, bool>) {
    key.assign = [&target](std::string_view text) -> Status {
      ORRERY_ASSIGN(target, parse_boolean(text));
      return {};
    };
  } else if constexpr (std::same_as<T, List>) {
    key.assign = [&target](std::string_view text) -> Status {
      target = parse_list(text);
      return {};
    };
  } else {
    for (std::string_view choice : options.choices)
      key.range += fmt::format("{}{}", key.range.empty() ? "" : ", ", choice);
    key.assign = [&target, choices = options.choices](std::string_view text) -> Status {
      ORRERY_TRY(check_choice(text, choices));
      target = text;
      return {};
    };
  }
  target = std::move(fallback);
  return *this;
}

}  // namespace orrery::config
