// The collectives one process has called and whose end has not been seen, and when their bytes moved.
//
// Bytes are known only as counters of flows read once a window, so they are given to the newest collective (with its
// whole group) of the communicator that was called before they moved; its first bytes end all older ones. A collective
// has ended when its bytes rested for Cadence::quiet_ns. Bytes that come later still (a stall, a retransmission) extend
// it, and its end is told again.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "agent/collect/limits.h"
#include "common/abi/event_abi.h"

namespace orrery::collect {

// Times are monotonic nanoseconds; 0: not seen.
struct Collective {
  uint64_t comm_id = 0;
  uint64_t bytes = 0;
  uint64_t sequence = 0;  // of its communicator on this process, from 0
  uint64_t called_ns = 0;
  uint64_t first_byte_ns = 0;
  uint64_t last_byte_ns = 0;
  uint32_t op = 0;
  uint32_t peer = 0;
  uint32_t group = 0;
  uint32_t rank = 0;
  uint16_t flags = 0;
};

class Collectives {
 public:
  Collectives(const Limits& limits, const Cadence& cadence) : limits_(limits), cadence_(cadence) {}

  // Over the bound the oldest open one is forgotten (its end will not be told).
  Collective call(const orrery_collective_event& event, uint32_t rank, uint64_t called_ns);
  // A collective that a graph records: nothing is sent, so it is neither counted nor does it end.
  Collective captured(const orrery_collective_event& event, uint32_t rank, uint64_t called_ns) const;
  // Bytes of this communicator moved from `first_ns` to `last_ns`.
  void observe(uint64_t comm_id, uint64_t first_ns, uint64_t last_ns);
  // Collectives that have ended since the last call, with their byte times.
  std::vector<Collective> take_ended(uint64_t now_ns);
  void forget(uint64_t comm_id);

  uint64_t forgotten() const { return forgotten_; }

 private:
  struct Entry {
    Collective collective;
    bool told = false;  // its end was told; kept while it is its communicator's newest, for late bytes
  };
  struct PerCommunicator {
    std::deque<Entry> entries;  // by time of call
    uint64_t next_sequence = 0;
  };
  void forget_oldest();
  void pop_front(uint64_t comm_id, PerCommunicator& state);
  void end_older_than(uint64_t comm_id, PerCommunicator& state, size_t newest);

  const Limits& limits_;
  const Cadence& cadence_;
  std::map<uint64_t, PerCommunicator> communicators_;
  std::set<std::pair<uint64_t, uint64_t>> fronts_;  // (called_ns, comm_id) of the first entry of each deque
  std::vector<Collective> ended_;
  size_t open_count_ = 0;  // entries in all deques
  uint64_t forgotten_ = 0;
};

}  // namespace orrery::collect
