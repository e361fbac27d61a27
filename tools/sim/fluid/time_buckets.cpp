#include "tools/sim/fluid/time_buckets.h"

#include <algorithm>

namespace orrery::sim {

TimeBuckets::TimeBuckets(size_t events, Kind kind) : next_(events, kNone) {
  if (kind != Kind::kRemovable) return;
  previous_.assign(events, kNone);
  bucket_of_.assign(events, kNone);
}

uint32_t TimeBuckets::bucket_for(Time time) {
  uint32_t& hint = recent_[(time * 0x9e3779b97f4a7c15u) >> 56];
  if (hint < buckets_.size() && buckets_[hint].time == time) return hint;
  if (heap_.size() > 64 + 4 * queued_) drop_all_empty();
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(buckets_.size()));
    buckets_.emplace_back();
  }
  hint = free_.back();
  free_.pop_back();
  buckets_[hint] = {time, kNone, kNone};
  heap_.push_back({time, made_++, hint});
  std::push_heap(heap_.begin(), heap_.end(), later);
  return hint;
}

void TimeBuckets::push(Time time, uint32_t event) {
  const uint32_t number = bucket_for(time);
  Bucket& bucket = buckets_[number];
  if (!bucket_of_.empty()) {
    bucket_of_[event] = number;
    previous_[event] = bucket.last;
  }
  next_[event] = kNone;
  (bucket.last == kNone ? bucket.first : next_[bucket.last]) = event;
  bucket.last = event;
  ++queued_;
}

void TimeBuckets::remove(uint32_t event) {
  if (bucket_of_[event] == kNone) return;
  Bucket& bucket = buckets_[bucket_of_[event]];
  const uint32_t before = previous_[event], after = next_[event];
  (before == kNone ? bucket.first : next_[before]) = after;
  (after == kNone ? bucket.last : previous_[after]) = before;
  bucket_of_[event] = kNone;
  --queued_;
}

void TimeBuckets::drop_empty_front() {
  while (!heap_.empty() && buckets_[heap_.front().bucket].first == kNone) {
    const uint32_t bucket = heap_.front().bucket;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    buckets_[bucket].time = kNever;
    free_.push_back(bucket);
  }
}

void TimeBuckets::drop_all_empty() {
  std::erase_if(heap_, [this](const Entry& entry) {
    if (buckets_[entry.bucket].first != kNone) return false;
    buckets_[entry.bucket].time = kNever;
    free_.push_back(entry.bucket);
    return true;
  });
  std::make_heap(heap_.begin(), heap_.end(), later);
}

Time TimeBuckets::next_time() {
  drop_empty_front();
  return heap_.empty() ? kNever : heap_.front().time;
}

uint32_t TimeBuckets::pop() {
  drop_empty_front();
  Bucket& bucket = buckets_[heap_.front().bucket];
  const uint32_t event = bucket.first;
  bucket.first = next_[event];
  if (bucket.first == kNone) bucket.last = kNone;
  if (!bucket_of_.empty()) {
    bucket_of_[event] = kNone;
    if (bucket.first != kNone) previous_[bucket.first] = kNone;
  }
  --queued_;
  return event;
}

size_t TimeBuckets::bytes() const {
  return (next_.capacity() + previous_.capacity() + bucket_of_.capacity() + free_.capacity()) * sizeof(uint32_t) +
         buckets_.capacity() * sizeof(Bucket) + heap_.capacity() * sizeof(Entry);
}

}  // namespace orrery::sim
