// Tables for other programs: one line per flow and run, one per link and run. docs/reference/simulation-csv.md has
// their columns.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tools/sim/cli/command.h"
#include "tools/sim/cli/csv_table.h"
#include "tools/sim/cli/document.h"

namespace orrery::sim {

class CsvFiles {
 public:
  // PREFIX.flows.csv and PREFIX.links.csv. `digests`: what an interrupted study wrote; the lines of these runs stay if
  // they are unchanged, all others go. Errors: kSystem.
  static Result<CsvFiles> create(const std::string& prefix, const std::map<RunKey, std::string>& digests);

  bool has(Scheme scheme, uint64_t seed) const { return kept_.contains({scheme, seed}); }
  // Returns the digest of the run's lines.
  std::string add(const fabric::Graph& graph, const Traffic& traffic, const Observation& observation);
  Status close();

 private:
  CsvTable flows_, links_;
  std::set<RunKey> kept_;
};

}  // namespace orrery::sim
