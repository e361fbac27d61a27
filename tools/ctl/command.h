// What every command file shares: the options common to all commands, and how a command reports.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "tools/ctl/cli.h"

namespace orrery::ctl {

struct GlobalOptions {
  std::string controller;  // ZeroMQ endpoint
  double timeout_s = 2.0;
  std::string key_file;  // CURVE; both empty on the controller's own machine
  std::string server_key_file;
};

// One run of the program. Command files register their sub-commands on `app`; the callback of the one that was given
// sets `action`.
struct Session {
  explicit Session(Console& where) : console(where) {}

  Console& console;
  CLI::App app;
  GlobalOptions global;
  std::function<int()> action;
};

void add_estimate_command(Session& session);
void add_key_commands(Session& session);
void add_place_command(Session& session);
void add_topology_commands(Session& session);
void add_topology_import(Session& session, CLI::App& topology);
void add_topology_plan(Session& session, CLI::App& topology);
// `plan`: the sub-command of that name, shared with commands that need no controller.
void add_live_commands(Session& session, CLI::App& plan);
void add_plan_compute(Session& session, CLI::App& plan);
void add_simulate_command(Session& session);
void add_watch_command(Session& session);
std::shared_ptr<bool> add_json_flag(CLI::App& app);

// Options whose values people write as 400G or 4:1. The value is set when the command line is parsed; a wrong one is a
// usage error. `value` lives as long as the app.
CLI::Option* add_quantity(CLI::App& app, const std::string& name, uint64_t& value, const std::string& help);
CLI::Option* add_rate(CLI::App& app, const std::string& name, uint64_t& bps, const std::string& help);
CLI::Option* add_ratio(CLI::App& app, const std::string& name, double& value, const std::string& help);

// `path` empty or "-": to `out`.
Status write_text(const std::string& path, const std::string& text, std::ostream& out);

// Prints "orreryctl: message" on console.err and returns the exit code that fits the error.
int report(Console& console, const Error& error);

// Does `work` when `command` was given, and reports its error.
void on_command(Session& session, CLI::App& command, std::function<Status()> work);

}  // namespace orrery::ctl
