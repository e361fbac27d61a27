#include "tools/sim/cli/cli.h"

#include <fmt/format.h>

#include <new>
#include <ostream>

#include "common/base/nearest_name.h"
#include "tools/ctl/table.h"
#include "tools/sim/cli/command.h"

namespace orrery::sim {
namespace {

void set_up(CLI::App& app, Console& console, std::function<int()>& action) {
  app.name("orrery-sim");
  app.description("What Orrery would do for given jobs on a given fabric, beside other schemes, without the fabric");
  app.set_version_flag("--version", "orrery-sim " ORRERY_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  add_run_options(*app.add_subcommand("run", "Simulate jobs under several schemes and seeds"), console, action);
  add_compare_command(app, console, action);
  add_report_command(app, console, action);
  app.footer("Exit codes: 0 success; 1 failure; 2 wrong usage or bad input.");
}

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// What CLI11 would reject without saying what was meant: an unknown command or option.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const CLI::App* at = nullptr;
  std::vector<std::string> names;
  for (const CLI::App* command : commands) {
    names.push_back(command->get_name());
    if (!words.empty() && command->get_name() == words[0]) at = command;
  }
  if (words.empty()) return fmt::format("a command is required, one of: {}", fmt::join(names, ", "));
  const auto hint = [](const std::string& wrong, const std::vector<std::string>& known) {
    return did_you_mean(wrong, std::vector<std::string_view>(known.begin(), known.end()));
  };
  if (at == nullptr)
    return words[0].starts_with("-") ? "" : fmt::format("unknown command '{}'{}", words[0], hint(words[0], names));
  for (const std::string& word : words) {
    if (word == "--") break;
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && at->get_option_no_throw(name) == nullptr)
      return fmt::format("{}: unknown option '{}'{}", at->get_name(), name, hint(name, long_names(*at)));
  }
  return "";
}

int usage_error(Console& console, const std::string& message) {
  console.err << console.program << ": " << message << "\nSee '" << console.program << " --help'\n";
  return kUsage;
}

}  // namespace

int report(const Console& console, const Error& error) {
  console.err << console.program << (error.message.find('\n') == std::string::npos ? ": " : ":\n") << error.message
              << "\n";
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kFailed;
}

int run(const std::vector<std::string>& arguments, Console& console) {
  CLI::App app;
  std::function<int()> action;
  set_up(app, console, action);
  if (const std::string error = unknown_word(app, arguments); !error.empty()) return usage_error(console, error);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    console.out << app.help();
    return kOk;
  } catch (const CLI::CallForVersion&) {
    console.out << app.version() << "\n";
    return kOk;
  } catch (const CLI::ParseError& error) {
    return usage_error(console, error.what());
  }
  if (!action) return usage_error(console, "a command is required");
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return report(console, {ErrorCode::kExhausted,
                            "no memory left, less than the estimate counts with; ask for less, or raise the limit "
                            "(ulimit -v)"});
  }
}

std::string all_help() {
  std::ostream nowhere(nullptr);
  Console console{.out = nowhere, .err = nowhere};
  CLI::App app;
  std::function<int()> action;
  set_up(app, console, action);
  std::string text = app.help();
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    text += "\n" + command->help("orrery-sim");
  return text;
}

}  // namespace orrery::sim
