// Learns the repeating sequence of operations of each communicator and predicts the next one. Pure: time comes in with
// the observations.
//
// A sequence is learned once it was seen twice in a row, up to kMaxPeriod operations long. An operation that does not
// belong costs its own miss: the sequence goes on behind it. Four wrong operations in a row end it. Memory is bounded
// per communicator (tens of KiB) and by kMaxCommunicators, beyond which the one not heard of for longest is forgotten.
// Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace orrery::forecast {

inline constexpr uint32_t kMaxPeriod = 512;
inline constexpr size_t kMaxCommunicators = 1024;

struct Operation {
  uint16_t op = 0;  // enum orrery_collective_op
  uint64_t bytes = 0;
  uint32_t peer = 0xffffffff;
  friend auto operator<=>(const Operation&, const Operation&) = default;
};

struct Prediction {
  Operation next;
  uint64_t window_start_ns = 0;  // TAI
  uint64_t window_end_ns = 0;
  uint64_t period_ns = 0;  // of the whole repeating sequence
  uint64_t jitter_ns = 0;
  double confidence = 0;  // 0..1: share of recent predictions that held
};

// A communicator's next round, from its next operation on.
struct Rhythm {
  struct Expected {
    Operation operation;
    uint64_t start_ns = 0;  // TAI
  };
  uint64_t last_start_ns = 0;  // TAI
  uint64_t period_ns = 0;
  uint64_t jitter_ns = 0;
  std::vector<Expected> round;
};

struct Score {
  uint64_t hits = 0;  // operation, bytes and start window as predicted
  uint64_t misses = 0;
};

class Forecaster {
 public:
  Forecaster();
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;
  Forecaster& operator=(Forecaster&&) noexcept;

  // One call per collective of a communicator (the first rank's report counts). A `start_ns` before the last one counts
  // as that; one more than a second before is of a clock that was set, and as predicted in no case. Returns whether it
  // came as predicted; nothing while there was no prediction.
  std::optional<bool> observe(uint64_t comm_id, const Operation& operation, uint64_t start_ns);
  std::optional<Prediction> predict(uint64_t comm_id) const;
  std::optional<Rhythm> rhythm(uint64_t comm_id) const;
  // When the last operations started, oldest first: two whole rounds of the longest sequence that can be learned.
  std::vector<uint64_t> starts_ns(uint64_t comm_id) const;
  Score score(uint64_t comm_id) const;
  void forget(uint64_t comm_id);
  size_t communicators() const { return histories_.size(); }

 private:
  struct History;
  std::unordered_map<uint64_t, std::unique_ptr<History>> histories_;
  uint64_t observations_ = 0;
};

}  // namespace orrery::forecast
