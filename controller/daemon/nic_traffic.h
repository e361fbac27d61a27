// What every NIC sent lately, slice by slice, and whether that is what was expected. Pure: time comes in with the
// samples.
//
// A NIC is judged by whole iterations, as many as fill kLeastSpanNs: its iterations may be longer than a slice. What
// takes longer than the slices kept (about two minutes) is not judged. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "controller/daemon/nic_prediction.h"

namespace orrery::daemon {

enum class Verdict : uint8_t {
  kUnknown,       // too early to tell, or iterations too long to tell
  kAsPredicted,   // within kTolerance
  kSlower,        // sends less in the same time
  kFaster,        // sends more
  kSilent,        // is expected to send and does not: its job has not started, or is over
  kNotPredicted,  // sends what nobody expected
};

struct NicLevel {
  double mean_bps = 0;
  double peak_bps = 0;  // of the fullest slice
  Verdict verdict = Verdict::kUnknown;
};

class NicTraffic {
 public:
  static constexpr size_t kSlices = 128;
  static constexpr uint64_t kLeastSpanNs = 10 * kSliceNs;
  static constexpr double kTolerance = 0.2;
  static constexpr double kNoise_bps = 1e6;  // control traffic: sends nothing

  // Takes how many bytes each NIC has sent in all, by the index in Graph::nics(); to be called at least each kSliceNs,
  // takes it about once in it. Whether it did.
  bool sample(std::span<const uint64_t> sent_bytes, uint64_t now_ns);
  // Of the NIC against what is expected of it.
  NicLevel judge(size_t nic, const NicExpectation& expected) const;

 private:
  struct Column {
    uint64_t at_ns = 0;
    std::vector<uint64_t> sent_bytes;
  };
  // 0: the newest.
  const Column& back(size_t columns) const { return columns_[(last_ + columns_.size() - columns) % columns_.size()]; }
  size_t slices() const { return columns_.empty() ? 0 : columns_.size() - 1; }
  // Slices are counted from the newest, which is 0. Precondition: newest < oldest <= slices().
  double rate_bps(size_t nic, size_t newest, size_t oldest) const;
  // In a slice from `newest` on, before `oldest`.
  bool sends_between(size_t nic, size_t newest, size_t oldest) const;

  std::vector<Column> columns_;  // a ring once it has kSlices + 1
  size_t last_ = 0;              // the newest
};

}  // namespace orrery::daemon
