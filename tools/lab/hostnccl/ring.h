// Ring collectives: the plan (pure: which slice to receive, combine, keep and send, in which order) and the task that
// carries it out.
//
// Every rank's elements are cut into chunks, chunks into slices. A slice is forwarded as soon as it is complete, so the
// links between ranks stay busy: all-reduce costs 2(n-1)/n of the bytes plus about one slice and one round of link
// latency per loop. A loop handles at most kMaxSlices slices per chunk; with 2 x kMaxSlices slots and sends in flight
// no ring of full buffers can form (the rank that is furthest behind always has a slot: what it still has to send is at
// most one chunk).
#pragma once

#include <deque>
#include <vector>

#include "tools/lab/hostnccl/task.h"

namespace orrery::hostnccl {

inline constexpr size_t kMaxSlices = 16;

// One slice's part in the ring on this rank.
struct SliceStep {
  const uint8_t* local = nullptr;  // own input for it; null when the value only passes through
  uint8_t* out = nullptr;          // where the value is kept; null: nowhere, it only travels on
  size_t bytes = 0;
  bool receives = false;
  bool reduces = false;   // the value is (partial, if received) combined with `local`
  bool finishes = false;  // the value is complete after this step
  bool sends = false;
};

// One channel's share of one operation. Precondition: nranks >= 2.
class RingPlan {
 public:
  RingPlan(const Operation& operation, int rank, int nranks, const SharedSettings& shared, uint32_t channel);

  size_t size() const { return full_loops_ * full_.steps() + tail_.steps(); }
  SliceStep at(size_t index) const;
  bool receives() const { return receives_; }
  bool sends() const { return sends_; }

 private:
  // How the elements of one loop are cut.
  struct Shape {
    size_t elements = 0;  // of the loop: all chunks for all-reduce, one chunk for the others
    size_t chunk = 0;     // elements of a chunk (the last ones may be shorter)
    size_t slice = 0;     // elements of a slice (the last one may be shorter)
    size_t slices = 0;    // per chunk
    size_t rounds = 0;    // chunks this rank handles per loop
    size_t steps() const { return slices * rounds; }
  };

  Shape shape_of(size_t elements) const;
  void set_role(SliceStep& step, size_t round) const;
  size_t block_of(size_t round) const;

  Operation operation_;
  size_t rank_;
  size_t nranks_;
  size_t element_bytes_;
  size_t max_slice_;
  size_t begin_ = 0;  // first element of the channel's share
  size_t rounds_ = 1;
  size_t position_ = 0;  // in the chain of broadcast and reduce
  bool receives_ = true;
  bool sends_ = true;
  size_t full_loops_ = 0;
  Shape full_;
  Shape tail_;
};

// Scratch slices of one channel, kept between operations. `transport` outlives the pool.
class SlotPool {
 public:
  SlotPool(size_t slot_bytes, Transport& transport);
  uint8_t* take();  // null when all are in use
  void give_back(uint8_t* slot) { free_.push_back(slot); }

 private:
  size_t slot_bytes_;
  Transport& transport_;
  std::unique_ptr<uint8_t[]> memory_;
  std::vector<std::unique_ptr<MemoryHold>> holds_;  // of the slots that have been used
  std::vector<uint8_t*> free_;                      // the last one given back is taken first
};

// Runs the plans of all channels. `slots` has one pool per channel and outlives the task.
std::unique_ptr<Task> make_ring_task(const Operation& operation, uint64_t sequence, const TaskContext& context,
                                     std::vector<SlotPool>& slots);

}  // namespace orrery::hostnccl
