// Samples the ports of one domain between its batches of events: what they sent, how deep their queues are. The loop
// itself knows nothing of it.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/model/result.h"
#include "tools/sim/packet/state.h"

namespace orrery::sim {

class Recorder {
 public:
  static constexpr uint32_t kSamplesPerSlice = 4;

  // `world` outlives it. Used by the domain's thread.
  Recorder(const World& world, uint32_t domain);

  // When to sample: a matter of time alone, so that domains agree; kNever: nothing is recorded.
  Time next() const { return next_; }
  // Precondition: everything before next() has happened, nothing after it.
  void sample();

  // To be called once when the run has ended. Returns how long its slices are.
  Time finish(Time end);
  // Waveforms of the domain's links, cut at result.end, in slices as long as the longest that a finish() returned; and
  // how long its queues were how deep when they were not empty.
  void add_to(RunResult& result, Time slice);
  // Every port has a queue from 0 to result.end: for the rest of the time it was empty. To be called last.
  static void add_empty_queues(const World& world, RunResult& result);
  size_t bytes() const { return cells_.capacity() * sizeof(Cell) + sent_.capacity() * sizeof(uint64_t); }

 private:
  struct Cell {
    uint64_t sent = 0, queued = 0;
  };
  Cell& cell(size_t link, uint32_t slice) { return cells_[link * most_ + slice]; }
  void end_slice();
  void widen(Time slice);

  const World& world_;
  const uint32_t most_;
  std::vector<uint32_t> links_;
  std::vector<Cell> cells_;     // by link of links_, then by slice
  std::vector<uint64_t> sent_;  // by link of links_: until the present slice began
  QueueTimes core_, edge_;      // of queues that are not empty
  Time slice_;                  // at present
  Time kept_;  // of cells_: no longer than slice_, as nothing is done about slices in which nothing happens
  Time next_ = kNever;
  uint32_t present_ = 0;  // slice
  uint32_t samples_ = 0;  // in the present slice
};

}  // namespace orrery::sim
