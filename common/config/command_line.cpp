#include "common/config/command_line.h"

#include <cstdio>
#include <string>

#include "common/base/nearest_name.h"

namespace orrery::config {
namespace {

enum class Action { kRun, kCheck, kPrint, kReference, kVersion, kHelp };

struct Command {
  Action action = Action::kRun;
  Sources sources;
  std::vector<Fault> faults;
};

struct PlainOption {
  std::string_view name;
  Action action;
};
constexpr PlainOption kPlainOptions[] = {
    {"--check-config", Action::kCheck}, {"--print-config", Action::kPrint}, {"--config-reference", Action::kReference},
    {"--version", Action::kVersion},    {"--help", Action::kHelp},          {"-h", Action::kHelp}};

// One argument with the value that belongs to it: "--name=value", or "--name" and the next argument.
class Arguments {
 public:
  Arguments(int argc, const char* const* argv) : argc_(argc), argv_(argv) {}

  bool next() {
    if (index_ + 1 >= argc_) return false;
    const std::string_view argument = argv_[++index_];
    const size_t equals = argument.starts_with("--") ? argument.find('=') : std::string_view::npos;
    name_ = argument.substr(0, equals);
    inline_value_.reset();
    if (equals != std::string_view::npos) inline_value_ = argument.substr(equals + 1);
    return true;
  }
  std::string_view name() const { return name_; }
  // Passes over what looks like the value of an unknown option, so that one slip is one fault.
  void skip_value() {
    if (name_.starts_with("--") && !inline_value_ && index_ + 1 < argc_ && argv_[index_ + 1][0] != '-') ++index_;
  }
  std::optional<std::string_view> take_value() {
    if (inline_value_) return inline_value_;
    if (index_ + 1 >= argc_) return std::nullopt;
    return argv_[++index_];
  }

 private:
  int argc_, index_ = 0;
  const char* const* argv_;
  std::string_view name_;
  std::optional<std::string_view> inline_value_;
};

void parse_set(std::string_view assignment, Command& command) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    command.faults.push_back({"flag --set", std::string(assignment), "must be KEY=VALUE"});
  else
    command.sources.flags.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
}

std::string unknown_option(const Table& table, std::string_view name) {
  std::vector<std::string> flags = {"--config", "--set"};
  for (const PlainOption& option : kPlainOptions)
    if (option.name.starts_with("--")) flags.emplace_back(option.name);
  for (const Table::Key& key : table.keys()) flags.push_back("--" + key.name);
  const std::vector<std::string_view> valid(flags.begin(), flags.end());
  const std::string hint = did_you_mean(name, valid);
  return "unknown option" + (hint.empty() ? "; see --help" : hint);
}

Command parse(const Table& table, int argc, const char* const* argv) {
  Command command;
  Arguments arguments(argc, argv);
  while (arguments.next()) {
    const std::string_view name = arguments.name();
    const PlainOption* plain = nullptr;
    for (const PlainOption& option : kPlainOptions)
      if (option.name == name) plain = &option;
    const bool is_key = name.starts_with("--") && name.find('.') != std::string_view::npos;
    if (plain != nullptr) {
      command.action = plain->action;
    } else if (name != "--config" && name != "--set" && !is_key) {
      command.faults.push_back({"command line", std::string(name), unknown_option(table, name)});
      arguments.skip_value();
    } else if (const auto value = arguments.take_value(); !value) {
      command.faults.push_back({"command line", std::string(name), "needs a value"});
    } else if (name == "--config") {
      command.sources.file = *value;
    } else if (name == "--set") {
      parse_set(*value, command);
    } else {
      command.sources.flags.emplace_back(name.substr(2), *value);
    }
  }
  return command;
}

void print_help(const Table& table, std::string_view summary) {
  std::printf(
      "%.*s\n\nUsage: %s [--config FILE] [--SECTION.NAME VALUE | --set SECTION.NAME=VALUE]...\n\n"
      "  --config FILE        read this YAML file\n"
      "  --check-config       report every fault of the configuration and exit: 0 good, 2 faulty\n"
      "  --print-config       print each value and where it came from, and exit\n"
      "  --config-reference   print the reference of all keys as Markdown, and exit\n"
      "  --version, --help\n\nKeys:\n",
      static_cast<int>(summary.size()), summary.data(), table.program().c_str());
  for (const Table::Key& key : table.keys())
    std::printf("  --%s %s  (%s)\n        %s\n", key.name.c_str(), key.type.c_str(),
                key.required ? "must be set" : ("default: " + key.fallback).c_str(), key.help.c_str());
}

void take_environment(const char* const* envp, Sources& sources) {
  for (; envp != nullptr && *envp != nullptr; ++envp) {
    const std::string_view entry = *envp;
    const size_t equals = entry.find('=');
    if (!entry.starts_with("ORRERY_") || equals == std::string_view::npos) continue;
    sources.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
}

}  // namespace

std::optional<int> load_command_line(Table& table, std::string_view version, std::string_view summary, int argc,
                                     const char* const* argv, const char* const* envp) {
  Command command = parse(table, argc, argv);
  if (command.faults.empty()) {
    if (command.action == Action::kHelp) return print_help(table, summary), 0;
    if (command.action == Action::kVersion)
      return std::printf("%s %.*s\n", table.program().c_str(), static_cast<int>(version.size()), version.data()), 0;
    if (command.action == Action::kReference) return std::fputs(table.reference().c_str(), stdout), 0;
  }
  take_environment(envp, command.sources);
  std::vector<Fault> faults = table.load(command.sources);
  faults.insert(faults.begin(), command.faults.begin(), command.faults.end());
  for (const Fault& fault : faults)
    std::fprintf(stderr, "%s: %s\n", table.program().c_str(), fault.to_string().c_str());
  if (!faults.empty()) return kExitConfigFault;
  if (command.action == Action::kPrint) return std::fputs(table.print().c_str(), stdout), 0;
  if (command.action == Action::kCheck)
    return std::printf("%s: the configuration is valid\n", table.program().c_str()), 0;
  return std::nullopt;
}

}  // namespace orrery::config
