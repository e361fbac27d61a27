// schemas/waveform.capnp as values: what a simulation expects every NIC to send. Field meanings and units are the
// schema's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace orrery::msg {

inline constexpr uint16_t kWaveformsVersion = 1;
inline constexpr size_t kMaxWaveformsBytes = 64u << 20;  // of a file

struct PredictedJob {
  std::string name;
  uint32_t iterations = 0;
  uint64_t period_ns = 0;
  friend bool operator==(const PredictedJob&, const PredictedJob&) = default;
};

struct JobShare {
  uint32_t job = 0;
  uint64_t bytes_per_iteration = 0;
  friend bool operator==(const JobShare&, const JobShare&) = default;
};

struct NicWaveform {
  std::string host;
  std::string nic;
  std::vector<uint64_t> bytes;
  std::vector<JobShare> shares;
  friend bool operator==(const NicWaveform&, const NicWaveform&) = default;
};

struct Waveforms {
  std::string topology;
  uint64_t fingerprint = 0;
  std::string scheme;
  std::string engine;
  uint64_t seed = 0;
  std::string title;
  uint64_t bin_ns = 0;
  std::vector<PredictedJob> jobs;
  std::vector<NicWaveform> nics;
  friend bool operator==(const Waveforms&, const Waveforms&) = default;
};

// Errors: kExhausted, longer than kMaxWaveformsBytes.
Result<std::string> encode(const Waveforms& waveforms);
// Every number within its range, every share of a job that there is. Errors: kCorrupt names the field;
// kInvalidArgument, of another version.
Result<Waveforms> decode_waveforms(std::string_view bytes);

}  // namespace orrery::msg
