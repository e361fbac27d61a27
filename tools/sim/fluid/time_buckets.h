// An event queue for events that often fall together: what happens at one moment shares a bucket, and only buckets are
// ordered. An event is a number below the count given at the start and is queued at most once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/sim/model/types.h"

namespace orrery::sim {

class TimeBuckets {
 public:
  enum class Kind : uint8_t { kPopOnly, kRemovable };
  TimeBuckets(size_t events, Kind kind);

  // Precondition: not queued.
  void push(Time time, uint32_t event);
  // Only with kRemovable. Not queued: does nothing.
  void remove(uint32_t event);
  // kNever: empty.
  Time next_time();
  // Of the next time, in the order they were pushed. Precondition: not empty.
  uint32_t pop();
  size_t bytes() const;

 private:
  struct Bucket {
    Time time = kNever;  // kNever: free
    uint32_t first = kNone, last = kNone;
  };
  struct Entry {
    Time time;
    uint64_t made;  // a time may have several buckets: the one made last is filled
    uint32_t bucket;
  };
  static bool later(const Entry& a, const Entry& b) { return a.time != b.time ? a.time > b.time : a.made > b.made; }
  uint32_t bucket_for(Time time);
  void drop_empty_front();
  void drop_all_empty();

  static constexpr size_t kRecent = 256;
  std::vector<uint32_t> next_;       // by event
  std::vector<uint32_t> previous_;   // by event, with kRemovable; kNone: first of its bucket
  std::vector<uint32_t> bucket_of_;  // by event, with kRemovable; kNone: not queued
  std::vector<Bucket> buckets_;
  std::vector<uint32_t> free_;
  std::vector<Entry> heap_;                 // a bucket that was emptied by remove() stays until it comes to the front
  std::array<uint32_t, kRecent> recent_{};  // buckets by a hash of their time: only a hint
  size_t queued_ = 0;
  uint64_t made_ = 0;
};

}  // namespace orrery::sim
