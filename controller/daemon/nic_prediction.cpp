#include "controller/daemon/nic_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "common/base/nearest_name.h"

namespace orrery::daemon {
namespace {

constexpr size_t kMostJobsBytes = 64;  // of names listed, or a little over twice as many

using NicIndex = std::unordered_map<std::string, size_t>;  // by "h1:eth0"

NicIndex index_of(const fabric::Graph& fabric) {
  NicIndex index;
  for (size_t nic = 0; nic < fabric.nics().size(); ++nic) index[fabric.link_name(fabric.nics()[nic].uplink)] = nic;
  return index;
}

Error unknown(const std::string& name, const NicIndex& known, const fabric::Graph& fabric) {
  std::vector<std::string_view> names;
  for (const auto& [each, nic] : known) names.push_back(each);
  std::sort(names.begin(), names.end());
  return {ErrorCode::kInvalidArgument,
          fmt::format("NIC '{}' is not in the topology {}{}; simulate on the controller's topology file", name,
                      fabric.name(), did_you_mean(name, names))};
}

// Of the slice of kSliceNs that has most, over the mean; 1 where the run was no longer than a slice.
double peak_to_mean(const std::vector<uint64_t>& bytes, uint64_t bin_ns) {
  const size_t width = std::max<uint64_t>(1, kSliceNs / bin_ns);
  const double total = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  if (width >= bytes.size() || total == 0) return 1;
  double slice = std::accumulate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(width), 0.0);
  double fullest = slice;
  for (size_t i = width; i < bytes.size(); ++i) {
    slice += static_cast<double>(bytes[i]) - static_cast<double>(bytes[i - width]);
    fullest = std::max(fullest, slice);
  }
  return fullest / static_cast<double>(width) / (total / static_cast<double>(bytes.size()));
}

NicExpectation expectation_of(const msg::NicWaveform& nic, const msg::Waveforms& waveforms) {
  NicExpectation out;
  for (const msg::JobShare& share : nic.shares) {
    const msg::PredictedJob& job = waveforms.jobs[share.job];
    if (out.jobs.size() < kMostJobsBytes)
      out.jobs += (out.jobs.empty() ? "" : ", ") + job.name.substr(0, kMostJobsBytes);
    out.mean_bps += static_cast<double>(share.bytes_per_iteration) * 8e9 / static_cast<double>(job.period_ns);
    out.bytes_per_iteration += share.bytes_per_iteration;
    out.period_ns = std::max(out.period_ns, job.period_ns);
  }
  out.peak_bps = out.mean_bps * peak_to_mean(nic.bytes, waveforms.bin_ns);
  return out;
}

}  // namespace

Result<NicPrediction> NicPrediction::make(const msg::Waveforms& waveforms, const fabric::Graph& fabric) {
  NicPrediction out;
  out.jobs_ = waveforms.jobs;
  out.topology_ = waveforms.topology;
  out.source_ =
      fmt::format("{}, {} engine, seed {}: {}", waveforms.scheme, waveforms.engine, waveforms.seed, waveforms.title);
  out.same_fabric_ = waveforms.fingerprint == fabric.fingerprint();
  out.nics_.resize(fabric.nics().size());
  const NicIndex index = index_of(fabric);
  std::vector<bool> told(out.nics_.size());
  for (const msg::NicWaveform& nic : waveforms.nics) {
    const std::string name = nic.host + ":" + nic.nic;
    const auto found = index.find(name);
    if (found == index.end()) return unknown(name, index, fabric);
    if (told[found->second])
      return Error{ErrorCode::kInvalidArgument, fmt::format("NIC '{}' is there twice; write the file again", name)};
    told[found->second] = true;
    out.nics_[found->second] = expectation_of(nic, waveforms);
  }
  return out;
}

}  // namespace orrery::daemon
