#include "tools/ctl/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <ostream>

#include "common/base/nearest_name.h"
#include "tools/ctl/command.h"
#include "tools/ctl/ranges.h"
#include "tools/ctl/table.h"

namespace orrery::ctl {
namespace {

constexpr std::string_view kDefaultController = "ipc:///run/orrery/control.sock";

void set_up(Session& session) {
  CLI::App& app = session.app;
  app.name("orreryctl");
  app.description("See what an Orrery fabric plans and does, and work with topology files");
  app.set_version_flag("--version", "orreryctl " ORRERY_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  app.fallthrough();
  const auto endpoint = session.console.environment.find("ORRERY_CONTROLLER");
  session.global.controller =
      endpoint != session.console.environment.end() ? endpoint->second : std::string(kDefaultController);
  app.add_option("--controller", session.global.controller,
                 fmt::format("ZeroMQ endpoint of the controller's control socket [env: ORRERY_CONTROLLER, else {}]",
                             kDefaultController));
  app.add_option("--timeout", session.global.timeout_s, "Seconds to wait for the controller's answer")
      ->check(within(0.01, 3600))
      ->capture_default_str();
  app.add_option("--key-file", session.global.key_file, "Own CURVE key pair, for a controller that asks for keys");
  app.add_option("--server-key-file", session.global.server_key_file, "The controller's public CURVE key");
  CLI::App* plan = app.add_subcommand("plan", "The plan: path, offset, rate and backup of every flow");
  plan->require_subcommand(1);
  add_live_commands(session, *plan);
  add_plan_compute(session, *plan);
  add_watch_command(session);
  add_topology_commands(session);
  add_key_commands(session);
  add_estimate_command(session);
  add_place_command(session);
  add_simulate_command(session);
  // Last, or every sub-command would repeat it.
  app.footer(
      "Exit codes: 0 success; 1 failure, or what was named is not there; 2 wrong usage or bad input;\n"
      "            3 no answer from the controller.");
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(subcommand->get_name());
  return names;
}

std::string hint(std::string_view wrong, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return did_you_mean(wrong, views);
}

// Follows the words that name commands, and finds what CLI11 would reject without saying what was meant.
class CommandWalk {
 public:
  CommandWalk(const CLI::App& root, const std::vector<std::string>& words) : root_(root), words_(words) {}

  // Empty when every command and option is known.
  std::string error() {
    for (size_t i = 0; i < words_.size(); ++i) {
      const std::string& word = words_[i];
      if (word == "--") return "";
      if (word == "--help" || word == "-h" || word == "--version") return "";
      std::string error;
      if (word.size() > 1 && word[0] == '-')
        error = follow_option(word, i);
      else
        error = follow_command(word);
      if (!error.empty()) return error;
    }
    const auto names = subcommand_names(*at_);
    if (names.empty()) return "";
    return fmt::format("{}: a command is required, one of: {}\nSee '{} --help'", path_, fmt::join(names, ", "), path_);
  }

 private:
  std::string follow_command(const std::string& word) {
    const auto names = subcommand_names(*at_);
    if (names.empty()) return "";  // an argument of the command
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end())
      return fmt::format("{}: unknown command '{}'{}\nThe commands here are: {}", path_, word, hint(word, names),
                         fmt::join(names, ", "));
    at_ = at_->get_subcommands([](const CLI::App*) { return true; })[static_cast<size_t>(found - names.begin())];
    path_ += " " + word;
    return "";
  }

  // Steps `i` over the option's value.
  std::string follow_option(const std::string& word, size_t& i) {
    const std::string name = word.substr(0, word.find('='));
    const CLI::Option* option = at_->get_option_no_throw(name);
    if (option == nullptr) option = root_.get_option_no_throw(name);
    if (option != nullptr) {
      if (option->get_items_expected_min() > 0 && name == word) ++i;
      return "";
    }
    if (!word.starts_with("--")) return "";  // "-oFILE" and the like are CLI11's to judge
    std::vector<std::string> names;
    for (const CLI::App* app : {at_, &root_})
      for (const CLI::Option* known : app->get_options())
        for (const std::string& long_name : known->get_lnames()) names.push_back("--" + long_name);
    return fmt::format("{}: unknown option '{}'{}\nSee '{} --help'", path_, name, hint(name, names), path_);
  }

  const CLI::App& root_;
  const std::vector<std::string>& words_;
  const CLI::App* at_ = &root_;
  std::string path_ = "orreryctl";
};

const CLI::App* deepest_parsed(const CLI::App& app, std::string& path) {
  const auto parsed = app.get_subcommands();
  if (parsed.empty()) return &app;
  path += " " + parsed.back()->get_name();
  return deepest_parsed(*parsed.back(), path);
}

int usage_error(Session& session, const std::string& message) {
  std::string path = "orreryctl";
  const CLI::App* app = deepest_parsed(session.app, path);
  session.console.err << path << ": " << message << "\nSee '" << path << " --help'";
  if (app->get_subcommands([](const CLI::App*) { return true; }).empty()) session.console.err << " for its options";
  session.console.err << "\n";
  return kUsage;
}

void collect_help(CLI::App& app, const std::string& parents, const std::string& path, std::vector<CommandHelp>& all) {
  all.push_back({path, app.help(parents)});
  for (CLI::App* subcommand : app.get_subcommands([](CLI::App*) { return true; }))
    collect_help(*subcommand, parents.empty() ? app.get_name() : parents + " " + app.get_name(),
                 path.empty() ? subcommand->get_name() : path + " " + subcommand->get_name(), all);
}

}  // namespace

int report(Console& console, const Error& error) {
  console.err << toned("orreryctl:", Tone::kBad, console.colour)
              << (error.message.find('\n') == std::string::npos ? " " : "\n") << error.message << "\n";
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return kUsage;
    case ErrorCode::kUnavailable:
      return kUnreachable;
    default:
      return kFailed;
  }
}

void on_command(Session& session, CLI::App& command, std::function<Status()> work) {
  command.callback([&session, work = std::move(work)] {
    session.action = [&session, work] {
      const Status done = work();
      return done ? static_cast<int>(kOk) : report(session.console, done.error());
    };
  });
}

int run(const std::vector<std::string>& arguments, Console& console) {
  Session session(console);
  set_up(session);
  if (const std::string error = CommandWalk(session.app, arguments).error(); !error.empty()) {
    console.err << error << "\n";
    return kUsage;
  }
  try {
    session.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    console.out << session.app.help();
    return kOk;
  } catch (const CLI::CallForVersion&) {
    console.out << session.app.version() << "\n";
    return kOk;
  } catch (const CLI::ParseError& error) {
    return usage_error(session, error.what());
  }
  if (!session.action) return usage_error(session, "a command is required");
  try {
    return session.action();
  } catch (const std::bad_alloc&) {
    return report(console, {ErrorCode::kExhausted, "no memory left; ask for less, or raise the limit (ulimit -v)"});
  }
}

std::vector<CommandHelp> all_help() {
  std::vector<CommandHelp> all;
  std::ostream nowhere(nullptr);
  Console console{.out = nowhere, .err = nowhere};
  Session session(console);
  set_up(session);
  collect_help(session.app, "", "", all);
  return all;
}

}  // namespace orrery::ctl
