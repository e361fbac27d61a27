// The event queue: many first-in-first-out lines and one heap.
//
// Nearly every event of a network comes a fixed time after the moment that makes it: a packet of some size arrives one
// serialization and one propagation later, a transmitter is free one serialization later. Events of one such delay are
// made in the order in which they fall due, so a plain ring holds them in order; the earliest of all is the earliest of
// a few dozen ring heads, which a winner tree knows. Only what has no fixed delay (paced sends, timers) needs the heap.
//
// Order: by time, then by key. The key tells apart all events of one moment and depends on nothing but what the event
// is, so that the order in which events were made, and the number of threads, never matter. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tools/sim/packet/packet.h"

namespace orrery::sim {

enum class EventKind : uint8_t {
  kArrival = 0,
  kPause = 1,
  kWake = 2,
  kSend = 3,
  kTimer = 4,
  kStep = 5,
  kFault = 6,
  kWatchdog = 7
};

struct Event {
  Time time = kNever;
  uint64_t key = 0;  // kind << 56 | detail << 32 | id; unique among events of one moment
  Packet packet;     // arrivals only

  EventKind kind() const { return static_cast<EventKind>(key >> 56); }
  uint32_t detail() const { return static_cast<uint32_t>(key >> 32) & 0xffffff; }
  uint32_t id() const { return static_cast<uint32_t>(key); }
  static uint64_t make_key(EventKind kind, uint32_t id, uint32_t detail = 0) {
    return static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(detail) << 32 | id;
  }
};
static_assert(sizeof(Event) == 32);

class EventLines {
 public:
  EventLines() { grow_tree(8); }

  // The line of a delay; a line is made at the first call. kNone when there are too many.
  uint32_t line_for(Time delay, uint32_t source = 0) {
    for (uint32_t i = 0; i < delays_.size(); ++i)
      if (delays_[i] == Delay{delay, source}) return i;
    if (delays_.size() == kMaxLines) return kNone;
    delays_.push_back({delay, source});
    lines_.emplace_back();
    if (lines_.size() + 1 > leaves_) grow_tree(2 * leaves_);
    return static_cast<uint32_t>(lines_.size() - 1);
  }

  // Precondition: not earlier than the last event of that line. Line kNone: the heap, which is slower.
  void push(uint32_t line, Time time, uint64_t key, const Packet& packet) {
    if (line >= lines_.size()) [[unlikely]] {
      strays_.emplace(std::pair(time, key), packet);
      return push_any(time, key);
    }
    Line& l = lines_[line];
    if (l.tail - l.head == l.capacity) l.grow();
    l.slots[l.tail++ & (l.capacity - 1)] = {time, key, packet};
    ++size_;
    if (l.tail - l.head == 1) set_head(line + 1, time, key);
  }

  void push_any(Time time, uint64_t key) {
    heap_.push_back({time, key});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
    ++size_;
    if (heap_.front().time == time && heap_.front().key == key) set_head(0, time, key);
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  Time next_time() const { return heads_[winner_[1]].time; }

  // Precondition: not empty().
  Event pop() {
    const uint32_t source = winner_[1];
    --size_;
    if (source == 0) return pop_heap();
    Line& l = lines_[source - 1];
    const Event event = l.slots[l.head++ & (l.capacity - 1)];
    if (l.head == l.tail) {
      set_head(source, kNever, ~uint64_t{0});
    } else {
      const Event& next = l.slots[l.head & (l.capacity - 1)];
      set_head(source, next.time, next.key);
    }
    return event;
  }

  size_t bytes() const {
    size_t sum = heap_.capacity() * sizeof(Head);
    for (const Line& l : lines_) sum += l.capacity * sizeof(Event);
    return sum;
  }

 private:
  static constexpr size_t kMaxLines = 255;

  struct Delay {
    Time delay;
    uint32_t source;
    bool operator==(const Delay&) const = default;
  };
  struct Head {
    Time time = kNever;
    uint64_t key = ~uint64_t{0};
    bool operator<(const Head& other) const { return time != other.time ? time < other.time : key < other.key; }
  };
  struct Later {
    bool operator()(const Head& a, const Head& b) const { return b < a; }
  };
  struct Line {
    std::unique_ptr<Event[]> slots = std::make_unique<Event[]>(16);
    uint64_t head = 0, tail = 0;
    uint64_t capacity = 16;  // a power of two

    void grow() {
      auto larger = std::make_unique<Event[]>(2 * capacity);
      for (uint64_t i = head; i != tail; ++i) larger[i & (2 * capacity - 1)] = slots[i & (capacity - 1)];
      slots = std::move(larger);
      capacity *= 2;
    }
  };

  Event pop_heap() {
    const Head head = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    heap_.pop_back();
    if (heap_.empty())
      set_head(0, kNever, ~uint64_t{0});
    else
      set_head(0, heap_.front().time, heap_.front().key);
    if (strays_.empty()) [[likely]]
      return {head.time, head.key, {}};
    const auto stray = strays_.find({head.time, head.key});
    if (stray == strays_.end()) return {head.time, head.key, {}};
    const Event event{head.time, head.key, stray->second};
    strays_.erase(stray);
    return event;
  }

  // winner_[1] is the source of the earliest event; leaves are sources: 0 the heap, i + 1 line i.
  void set_head(uint32_t source, Time time, uint64_t key) {
    heads_[source] = {time, key};
    for (uint32_t node = (leaves_ + source) / 2; node >= 1; node /= 2) winner_[node] = better(node);
  }
  uint8_t child(uint32_t node) const { return node >= leaves_ ? static_cast<uint8_t>(node - leaves_) : winner_[node]; }
  uint8_t better(uint32_t node) const {
    const uint8_t a = child(2 * node), b = child(2 * node + 1);
    return heads_[b] < heads_[a] ? b : a;
  }
  void grow_tree(uint32_t leaves) {
    leaves_ = leaves;
    heads_.resize(leaves);
    winner_.assign(leaves, 0);
    for (uint32_t node = leaves - 1; node >= 1; --node) winner_[node] = better(node);
  }

  std::vector<Delay> delays_;
  std::vector<Line> lines_;
  std::vector<Head> heap_;
  std::map<std::pair<Time, uint64_t>, Packet> strays_;  // packets of the heap's events that found no line
  std::vector<Head> heads_;
  std::vector<uint8_t> winner_;
  uint32_t leaves_ = 0;
  size_t size_ = 0;
};

}  // namespace orrery::sim
