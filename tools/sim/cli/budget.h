// Whether a study fits into memory: asked before its fabric, before its traffic and before its plans are made.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/sim/cli/command.h"
#include "tools/sim/runner/memory.h"

namespace orrery::sim {

class Budget {
 public:
  // Both outlive it.
  explicit Budget(const RunRequest& request);

  // Tasks that a workload file may prescribe at most.
  uint64_t max_tasks() const;
  // Each: kExhausted tells what is needed, what there is, and every change that makes it fit. "At least" where more may
  // be asked for in the next step.
  static Status check_fabric(const Scenario& scenario, double memory_gib);
  Status check_jobs(const fabric::Graph& graph, const PlacedJobs& placed);
  // check_jobs() has been asked.
  Status check_traffic(const fabric::Graph& graph, const Traffic& traffic);
  // So many runs at a time, or as many as there is memory for. check_traffic() has been asked.
  uint32_t runs_at_once(uint32_t wanted) const;
  // What check_traffic() found out about the study's planned schemes.
  const Subflows& subflows() const { return study_.size.options.known; }

 private:
  // The study with what may be changed of it.
  struct Study {
    std::vector<Job> jobs;  // of the workload too
    StudySize size;
    std::vector<Scheme> schemes;
  };
  uint64_t needed(const Study& study) const;
  // The largest number from 1 to `most` with which it fits; 0: none.
  uint64_t largest(uint64_t most, const std::function<void(Study&, uint64_t)>& change) const;
  std::vector<std::string> cures() const;
  void cure_by_numbers(std::vector<std::string>& cures) const;
  void cure_by_all(std::vector<std::string>& cures) const;
  const RunRequest& request_;
  uint64_t limit_;  // bytes
  bool in_file_;    // the scenario is a file, options cannot change its jobs
  Load fabric_;
  Load traffic_;
  Load prescribed_;  // by a workload file, transfer by transfer
  Study study_;
};

}  // namespace orrery::sim
