// What the command files share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/ctl/quantity.h"
#include "tools/sim/cli/cli.h"
#include "tools/sim/runner/runner.h"
#include "tools/sim/scenario/scenario.h"

namespace orrery::sim {

// Prints "PROGRAM: message" on console.err and returns the exit code that fits the error.
int report(const Console& console, const Error& error);

void add_compare_command(CLI::App& app, Console& console, std::function<int()>& action);
void add_report_command(CLI::App& app, Console& console, std::function<int()>& action);

using ctl::parse_quantity;

Error cannot_write(const std::string& path);
Status write_file(const std::string& path, const std::string& text);

// What `run` was asked for.
struct RunRequest {
  Scenario scenario;
  std::optional<fabric::Graph> graph;  // of the scenario; there once the request is made
  std::string title;                   // what is simulated, in words
  std::string model_text;  // what decides a result beside fabric and jobs, to tell whether two are of one study
  bool ideal = true;
  bool json = false;
  bool progress = false;
  std::string output;     // JSON file besides the table; empty: none
  std::string page;       // HTML file; empty: none
  std::string csv;        // prefix; empty: none
  std::string waveforms;  // file for orrery-controller; empty: none
  Scheme waveforms_of = Scheme::kOrreryStagger;
  bool resume = false;
  bool history = true;  // in what is written to files
  double memory_gib = 0;
  uint32_t parallel = 0;  // runs at a time; 0: as many as there are processors for
};

EngineRun engine_of(const Scenario& scenario);
// Study::reduce for that engine.
std::function<void(std::vector<FlowRoute>&)> reduction_of(const Scenario& scenario);

std::string render_text(const nlohmann::json& document, bool colour);
std::string render_html(const nlohmann::json& document);

}  // namespace orrery::sim
