// Tables for other programs: one line per flow and run, one per link and run.
#pragma once

#include <fstream>
#include <string>

#include "tools/sim/cli/command.h"

namespace orrery::sim {

class CsvFiles {
 public:
  // PREFIX.flows.csv and PREFIX.links.csv. Errors: kSystem.
  static Result<CsvFiles> create(const std::string& prefix);
  void add(const fabric::Graph& graph, const Traffic& traffic, const Observation& observation);
  Status close();

 private:
  std::string prefix_;
  std::ofstream flows_, links_;
};

}  // namespace orrery::sim
