// The agent's half of a segment. The memory belongs to a process that may be hostile, so every index is bounded by the
// shape chosen here, every event is copied before it is looked at, and the work of one drain is bounded.
//
// Owner: the thread that drains. Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "common/shm/event_check.h"
#include "common/shm/layout.h"
#include "common/shm/memfd.h"

namespace orrery::shm {

struct DrainResult {
  uint64_t events = 0;     // delivered
  uint64_t malformed = 0;  // not delivered: a field was out of range
  uint64_t dropped = 0;    // the process found its ring full
  uint64_t no_ring = 0;    // events of threads that found no free ring
  uint64_t no_slot = 0;    // flows that found no free counter slot
  uint64_t resyncs = 0;    // `produced` jumped beyond the ring's capacity; what lay between is given up
  bool more = false;       // max_events was reached, events are left
};

struct FlowSample {
  uint32_t generation = 0;
  uint32_t bursts = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_bytes = 0;
  uint64_t first_tx_ns = 0;
  uint64_t last_tx_ns = 0;
  uint64_t held_ns = 0;
  uint64_t held_sends = 0;
  uint64_t plan_flow_id = 0;
};

class AgentSegment {
 public:
  // Errors: kInvalidArgument (shape), kSystem.
  static Result<AgentSegment> create(const SegmentShape& shape);

  int fd() const { return memory_.fd(); }
  size_t bytes() const { return memory_.bytes(); }
  const SegmentShape& shape() const { return shape_; }

  // At least every second, else processes detach (they tolerate 3 s).
  void mark_alive(uint64_t now_ns);

  // Calls sink(const orrery_event&) for each well-formed event, at most max_events of them, ring by ring (in order
  // within a ring, the rings taken in turn from call to call). The order between rings is that of time_ns only.
  template <typename Sink>
  DrainResult drain(size_t max_events, uint64_t now_ns, Sink&& sink) {
    DrainResult result;
    size_t seen = 0;
    for (uint32_t i = 0; i < shape_.ring_count && !result.more; ++i) {
      const uint32_t ring = (first_ring_ + i) % shape_.ring_count;
      Batch batch = open_batch(ring, result);
      for (; batch.next != batch.end; ++batch.next) {
        if (seen == max_events) {
          result.more = true;
          break;
        }
        ++seen;
        orrery_event event = copy_event(ring, batch.next);
        if (is_well_formed(event, shape_.flow_slots, now_ns)) {
          ++result.events;
          sink(static_cast<const orrery_event&>(event));
        } else {
          ++result.malformed;
        }
      }
      close_batch(ring, batch);
      if (result.more) first_ring_ = ring;
    }
    take_losses(result);
    return result;
  }

  // Nothing when the slot is out of range, free, or changed hands while it was read.
  std::optional<FlowSample> read_flow(uint32_t slot) const;
  // The last counters of a flow that had `generation` and has ended; nothing when its slot was taken again.
  std::optional<FlowSample> read_ended_flow(uint32_t slot, uint32_t generation) const;

  // What a queue pair adds to the flow of `slot` that has, or ended with, `generation`; nothing when the slot was taken
  // again, is out of range, or the segment is of version 1.
  std::optional<orrery_qp_counters> read_qp(uint32_t slot, uint32_t generation) const;

 private:
  struct Batch {
    uint64_t next;
    uint64_t end;
  };
  AgentSegment(SharedMemory memory, const SegmentShape& shape);
  Batch open_batch(uint32_t ring, DrainResult& result);
  void close_batch(uint32_t ring, const Batch& batch);
  std::optional<FlowSample> read_slot(uint32_t slot) const;
  orrery_event copy_event(uint32_t ring, uint64_t position) const;
  void take_losses(DrainResult& result);

  SharedMemory memory_;
  SegmentShape shape_;
  uint32_t first_ring_ = 0;
  std::vector<uint64_t> consumed_;  // the truth; the copy in the segment is for the writer only
  std::vector<uint64_t> dropped_seen_;
  uint64_t no_ring_seen_ = 0;
  uint64_t no_slot_seen_ = 0;
};

}  // namespace orrery::shm
