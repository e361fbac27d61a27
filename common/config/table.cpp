#include "common/config/table.h"

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "common/base/nearest_name.h"

namespace orrery::config {
namespace {

std::string file_position(const std::string& path, const YAML::Mark& mark) {
  return mark.is_null() ? path : fmt::format("{}:{}", path, mark.line + 1);
}

// A scalar's text, or a sequence of scalars as a comma-separated list.
Result<std::string> value_text(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  if (node.IsNull()) return std::string();
  if (!node.IsSequence()) return Error{ErrorCode::kInvalidArgument, "takes one value, not a map of values"};
  List elements;
  for (const YAML::Node& element : node) {
    if (!element.IsScalar()) return Error{ErrorCode::kInvalidArgument, "takes a list of plain values"};
    elements.push_back(element.Scalar());
  }
  return print_list(elements);
}

}  // namespace

std::string Fault::to_string() const {
  std::string text = where;
  if (!key.empty()) text += fmt::format("{}{}", text.empty() ? "" : ": ", key);
  return text + ": " + message;
}

std::string environment_name(std::string_view key) {
  std::string name = "ORRERY_";
  for (const char c : key) name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

Status check_choice(std::string_view value, const std::vector<std::string_view>& choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is not one of {}{}", value, fmt::join(choices, ", "), did_you_mean(value, choices))};
}

Table::Key& Table::add(std::string_view name, std::string_view type, std::string_view unit, std::string_view help,
                       bool required) {
  // A key outside `section.name` or given twice is a mistake of the program, not of its user.
  if (std::count(name.begin(), name.end(), '.') != 1 || find(name) != nullptr) std::abort();
  Key& key = keys_.emplace_back();
  key.name = name;
  key.type = type;
  key.unit = unit;
  key.help = help;
  key.required = required;
  return key;
}

Table& Table::rule(std::string_view name, std::function<std::string()> check) {
  if (find(name) == nullptr) std::abort();
  rules_.emplace_back(name, std::move(check));
  return *this;
}

Table& Table::ignore_environment(std::string_view variable) {
  ignored_environment_.emplace_back(variable);
  return *this;
}

Table::Key* Table::find(std::string_view name) {
  const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.name == name; });
  return found == keys_.end() ? nullptr : &*found;
}

std::string Table::unknown_key(std::string_view name) const {
  std::vector<std::string_view> valid;
  for (const Key& key : keys_) {
    // The commonest slip: the unit at the end left out.
    if (key.name.starts_with(std::string(name) + "_")) return fmt::format("unknown key, did you mean '{}'?", key.name);
    valid.push_back(key.name);
  }
  std::string hint = did_you_mean(name, valid);
  if (hint.empty()) hint = fmt::format("; '{} --config-reference' lists the keys", program_);
  return "unknown key" + hint;
}

void Table::assign(std::string_view name, std::string_view value, const std::string& where,
                   std::vector<Fault>& faults) {
  Key* key = find(name);
  if (key == nullptr) {
    faults.push_back({where, std::string(name), unknown_key(name)});
  } else if (const Status status = key->assign(value); !status) {
    faults.push_back({where, key->name, status.error().message});
  } else {
    key->origin = where;
  }
}

void Table::load_file(const std::string& path, std::vector<Fault>& faults) {
  YAML::Node root;
  try {
    root = YAML::LoadFile(path);
  } catch (const YAML::BadFile&) {
    faults.push_back({path, "", "cannot be read; check the path and its permissions"});
    return;
  } catch (const YAML::Exception& e) {
    faults.push_back({file_position(path, e.mark), "", "is not YAML: " + e.msg});
    return;
  }
  if (root.IsNull()) return;
  if (!root.IsMap()) {
    faults.push_back({file_position(path, root.Mark()), "", "must be a map of sections ('agent:' and so on)"});
    return;
  }
  std::set<std::string> seen;
  for (const auto& section : root) {
    const std::string section_name = section.first.IsScalar() ? section.first.Scalar() : "";
    if (section.second.IsNull()) continue;
    if (!section.second.IsMap()) {
      faults.push_back({file_position(path, section.first.Mark()), section_name, "must be a section: a map of keys"});
      continue;
    }
    for (const auto& entry : section.second) {
      const std::string where = file_position(path, entry.first.Mark());
      const std::string name = section_name + "." + (entry.first.IsScalar() ? entry.first.Scalar() : "?");
      if (!seen.insert(name).second) {
        faults.push_back({where, name, "is given a second time"});
      } else if (const Result<std::string> text = value_text(entry.second); text) {
        assign(name, *text, where, faults);
      } else {
        faults.push_back({where, name, text.error().message});
      }
    }
  }
}

void Table::load_environment(const Sources& sources, std::vector<Fault>& faults) {
  std::vector<std::string> names;
  for (const Key& key : keys_) names.push_back(environment_name(key.name));
  const std::vector<std::string_view> valid(names.begin(), names.end());
  for (const auto& [variable, value] : sources.environment) {
    const auto found = std::find(names.begin(), names.end(), variable);
    if (found != names.end()) {
      assign(keys_[static_cast<size_t>(found - names.begin())].name, value, "environment " + variable, faults);
      continue;
    }
    const bool ours = std::any_of(keys_.begin(), keys_.end(), [&](const Key& key) {
      return variable.starts_with(environment_name(key.name.substr(0, key.name.find('.') + 1)));
    });
    const bool ignored =
        std::find(ignored_environment_.begin(), ignored_environment_.end(), variable) != ignored_environment_.end();
    if (ours && !ignored && !nearest_name(variable, valid).empty())
      faults.push_back({"environment", variable, "unknown variable" + did_you_mean(variable, valid)});
  }
}

void Table::check_required(std::vector<Fault>& faults) const {
  for (const Key& key : keys_) {
    if (!key.required || !key.print().empty()) continue;
    const bool already = std::any_of(faults.begin(), faults.end(), [&](const Fault& f) { return f.key == key.name; });
    if (already) continue;
    faults.push_back({key.origin == "default" ? "" : key.origin, key.name,
                      fmt::format("must be set: in the file, by {} or by --{}", environment_name(key.name), key.name)});
  }
}

std::vector<Fault> Table::load(const Sources& sources) {
  std::vector<Fault> faults;
  if (!sources.file.empty()) load_file(sources.file, faults);
  load_environment(sources, faults);
  for (const auto& [name, value] : sources.flags) assign(name, value, "flag", faults);
  check_required(faults);
  for (const auto& [name, check] : rules_) {
    const Key& key = *find(name);
    if (std::string wrong = check(); !wrong.empty())
      faults.push_back({key.origin == "default" ? "" : key.origin, name, std::move(wrong)});
  }
  return faults;
}

std::string Table::print() const {
  std::string text;
  for (const Key& key : keys_) text += fmt::format("{} = {}  # {}\n", key.name, key.print(), key.origin);
  return text;
}

std::string Table::reference() const {
  std::string text = fmt::format(
      "# Configuration of {0}\n\n"
      "Made by `{0} --config-reference`. A value comes from, later ones winning: the default, the YAML file of "
      "`--config FILE` "
      "(`section:` with `name: value` below), the environment (`ORRERY_SECTION_NAME`), a flag (`--section.name VALUE` "
      "or "
      "`--set section.name=VALUE`). `--check-config` reports every fault at once, `--print-config` each value with its "
      "origin.\n",
      program_);
  std::string section;
  for (const Key& key : keys_) {
    if (const std::string own = key.name.substr(0, key.name.find('.')); own != section) {
      section = own;
      text += fmt::format(
          "\n## {}\n\n| key | type | unit | default | range | meaning |\n| --- | --- | --- | --- | --- | --- |\n",
          section);
    }
    const std::string fallback = key.required           ? "(must be set)"
                                 : key.fallback.empty() ? "(empty)"
                                                        : "`" + key.fallback + "`";
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", key.name, key.type, key.unit, fallback, key.range, key.help);
  }
  return text;
}

}  // namespace orrery::config
