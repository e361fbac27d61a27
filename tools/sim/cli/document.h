// The result document: what `run --json` prints, and what `compare` and `report` read.
//
// docs/reference/simulation-result.md has its keys.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/sim/cli/command.h"

namespace orrery::sim {

using RunKey = std::pair<Scheme, uint64_t>;  // with its seed

// What the study itself does not know.
struct DocumentParts {
  std::vector<std::string> jobs;               // their names
  std::string fingerprint;                     // of everything that decides what a run comes to
  std::map<Scheme, nlohmann::json> histories;  // history_of()
  std::map<RunKey, std::string> csv_digests;   // CsvFiles::add()
};

// `result` may be of a study that is not finished.
nlohmann::json document_of(const RunRequest& request, const fabric::Graph& graph, const StudyResult& result,
                           const DocumentParts& parts);

// What one job got: mean iterations of all seeds, 0 where none ended.
struct JobMeans {
  std::string name;
  double ideal_ms = 0;
  std::vector<double> mean_ms;  // by scheme of the document
};
std::vector<JobMeans> job_means(const nlohmann::json& document);
// "1.234" times the ideal, or milliseconds where there is no ideal; "-": none ended.
std::string beside_ideal(double mean_ms, double ideal_ms);

// Errors: kInvalidArgument names the file and what it lacks.
Result<nlohmann::json> load_document(const std::string& path);
// Does what reads the document of `path`. Errors: kInvalidArgument, when something in it is not of the type it should
// be.
Status reading(const std::string& path, const std::function<void()>& read);

}  // namespace orrery::sim
