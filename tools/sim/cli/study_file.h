// The result file of a study that is going on: written whole after each run, so that an interrupted study loses no
// finished run and can be resumed.
#pragma once

#include <chrono>
#include <string>

#include "tools/sim/cli/document.h"
#include "tools/sim/model/traffic.h"

namespace orrery::sim {

// Of everything that decides what a run comes to, but for scheme and seed: fabric, traffic, model and program version.
std::string fingerprint_of(const RunRequest& request, const fabric::Graph& graph, const Traffic& traffic);

// What an earlier, interrupted study left.
class KnownRuns {
 public:
  KnownRuns() = default;
  // A file that is not there knows nothing. Errors: it is no result, or of another study.
  static Result<KnownRuns> load(const std::string& path, const fabric::Graph& graph, DocumentParts& parts);

  std::optional<Run> find(Scheme scheme, uint64_t seed, bool ideal) const;

 private:
  void take(const nlohmann::json& document, const fabric::Graph& graph, DocumentParts& parts);

  std::optional<Run> ideal_;
  std::map<RunKey, Run> runs_;
};

// Replaces `path` by `text` at once: whoever reads sees the old or the new, and a crash leaves one of them.
Status replace_file(const std::string& path, const std::string& text);

// At most one write a second: runs of milliseconds are cheaper to repeat than to save one by one. What is no plain file
// (a pipe, a terminal) is written once, at the end.
class Saver {
 public:
  explicit Saver(std::string path);
  template <typename Make>
  Status save(bool last, Make make) {
    const auto now = std::chrono::steady_clock::now();
    if (path_.empty() || (!last && (!plain_ || now < next_))) return {};
    next_ = now + std::chrono::seconds(1);
    return plain_ ? replace_file(path_, make()) : write_file(path_, make());
  }

 private:
  const std::string path_;
  bool plain_ = true;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace orrery::sim
