// The options of `run`, and the scenario that they come to.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/cli/command.h"

namespace orrery::sim {

class RunOptions {
 public:
  // Lives as long as `app`.
  void add_to(CLI::App& app);
  // Errors: kInvalidArgument.
  Result<RunRequest> request() const;

 private:
  void add_fabric(CLI::App& app);
  void add_job(CLI::App& app);
  void add_study(CLI::App& app);
  void add_model(CLI::App& app);
  void add_output(CLI::App& app);
  Status fill_fabric(Scenario& scenario) const;
  Status fill_placement(Scenario& scenario) const;
  Status fill_workload(Scenario& scenario) const;
  Status fill_job(Scenario& scenario, uint32_t hosts) const;
  Status fill_study(Scenario& scenario) const;
  void fill_model(Scenario& scenario, const fabric::Graph& graph) const;
  Status from_options(RunRequest& request) const;
  Status from_file(RunRequest& request) const;
  std::string title(const Scenario& scenario) const;
  Result<std::string> model_text() const;

  std::string file_;
  std::string topology_;
  uint32_t leaves_ = 4, spines_ = 4, hosts_ = 16;
  std::string rate_ = "100G", uplink_rate_ = "0", queue_bytes_ = "0";
  std::string workload_, format_ = "aicb";
  std::string op_ = "all-reduce", algorithm_ = "default", bytes_ = "64M", placement_ = "fragmented";
  uint64_t placement_seed_ = 1;
  uint32_t ranks_ = 0, ranks_per_host_ = 1, jobs_ = 1, rounds_ = 5, ring_steps_ = 0, channels_ = 1, round_width_ = 1;
  double compute_us_ = 0, jitter_ = 0;
  std::vector<std::string> schemes_;
  uint32_t seeds_ = 3, connections_ = 4, threads_ = 1, telemetry_ = 0;
  std::string pfc_ = "on", congestion_control_ = "dcqcn";
  double clock_error_ns_ = 0, propagation_ns_ = 1'000;
  RunRequest output_;
  std::string waveforms_of_;
  bool no_ideal_ = false;
  std::vector<CLI::Option*> only_without_file_;
  std::string engine_ = "packet";
  CLI::Option* engine_given_ = nullptr;
  CLI::Option *workload_given_ = nullptr, *rounds_given_ = nullptr, *op_given_ = nullptr;
  CLI::Option* seeds_given_ = nullptr;
  CLI::Option* connections_given_ = nullptr;
};

}  // namespace orrery::sim
