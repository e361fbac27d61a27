// What a simulation expects of every NIC of the fabric: read from a waveforms file, for people to compare with and for
// the planner to begin with. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/msg/waveform_messages.h"
#include "controller/fabric/graph.h"

namespace orrery::daemon {

// Waveforms are compared in slices of this length: agents report what a flow has sent ten times in it.
inline constexpr uint64_t kSliceNs = 1'000'000'000;

// Rates are of payload, as agents count.
struct NicExpectation {
  std::string jobs;  // that send by it: "train", "train, eval"; "": nothing is expected
  double mean_bps = 0;
  double peak_bps = 0;  // over the fullest kSliceNs; the mean where the run was shorter
  uint64_t bytes_per_iteration = 0;
  uint64_t period_ns = 0;  // of the longest iteration of its jobs

  bool sends() const { return mean_bps > 0; }
};

class NicPrediction {
 public:
  // Errors: kInvalidArgument names a host or NIC that the fabric does not have, or has twice in the file.
  static Result<NicPrediction> make(const msg::Waveforms& waveforms, const fabric::Graph& fabric);

  // By the index in Graph::nics().
  const NicExpectation& of(size_t nic) const { return nics_[nic]; }
  const std::vector<msg::PredictedJob>& jobs() const { return jobs_; }
  const std::string& source() const { return source_; }  // what was simulated, in words
  const std::string& topology() const { return topology_; }
  // Whether it was made on this very fabric, and not on one that has the same NICs.
  bool same_fabric() const { return same_fabric_; }

 private:
  std::vector<NicExpectation> nics_;
  std::vector<msg::PredictedJob> jobs_;
  std::string source_, topology_;
  bool same_fabric_ = false;
};

}  // namespace orrery::daemon
