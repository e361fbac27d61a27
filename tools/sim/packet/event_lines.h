// The event queue: many first-in-first-out lines and two heaps.
//
// Nearly every event of a network comes a fixed time after the moment that makes it: a packet of some size arrives one
// serialization and one propagation later, a transmitter is free one serialization later. Events of one such delay are
// made in the order in which they fall due, so a plain ring holds them in order; the earliest of all is the earliest of
// a few dozen ring heads, which a winner tree knows. What has no fixed delay but comes soon (paced sends, transmitters
// that turn out to be needed again) is put in its place in a line of its own, if that is near the line's end. Only the
// rest needs a heap: one for what comes soon and one for what comes late, so that thousands of timers do not make the
// first one deep.
//
// Order: by time. Who takes events sorts those of one moment by their keys: a key tells apart all events of a moment
// and depends on nothing but what the event is, so that the order in which events were made, and the number of threads,
// never matter. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tools/sim/packet/packet.h"

namespace orrery::sim {

// In the order in which those of one moment happen. An arrival's id is the link, a delivery's the host at its end.
enum class EventKind : uint8_t { kArrival, kDelivery, kPause, kWake, kSend, kTimer, kStep, kFault, kWatchdog };

struct Event {
  Time time = kNever;
  uint64_t key = 0;  // kind << 56 | detail << 32 | id; unique among events of one moment
  Packet packet;     // arrivals and deliveries only

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
  // Nothing happens at this moment or later: about 20 hours, what a node of the tree has room for. Events that late are
  // not kept.
  static constexpr Time kEnd = (Time{1} << 56) - 1;

  EventLines() {
    grow_tree(8);
    line_for(kNever);  // kSoonLine
  }

  // The line of a delay; a line is made at the first call. kNone when there are too many.
  uint32_t line_for(Time delay, uint32_t source = 0) {
    for (uint32_t i = 0; i < delays_.size(); ++i)
      if (delays_[i] == Delay{delay, source}) return i;
    if (delays_.size() == kMaxLines) return kNone;
    delays_.push_back({delay, source});
    lines_.emplace_back();
    if (lines_.size() + kHeaps > leaves_) grow_tree(2 * leaves_);
    return static_cast<uint32_t>(lines_.size() - 1);
  }

  // Precondition: not earlier than the last event of that line. Line kNone: a heap, which is slower.
  void push(uint32_t line, Time time, uint64_t key, const Packet& packet) {
    if (line >= lines_.size()) [[unlikely]] {
      if (time < kEnd) strays_.emplace(std::pair(time, key), packet);
      return push_heap(kSoon, time, key);  // which looks for strays
    }
    if (time >= kEnd) [[unlikely]]
      return;
    Line& l = lines_[line];
    if (l.tail - l.head > l.mask) [[unlikely]]
      l.grow();
    l.slots[l.tail & l.mask] = {time, key, packet};
    if (l.tail++ == l.head) set_head(line + kHeaps, time);
  }

  void push_soon(Time time, uint64_t key) {
    Line& l = lines_[kSoonLine];
    const uint32_t count = l.tail - l.head;
    if (count >= kSteps && l.slots[(l.tail - kSteps) & l.mask].time > time) return push_heap(kSoon, time, key);
    if (time >= kEnd) [[unlikely]]
      return;
    if (count > l.mask) [[unlikely]]
      l.grow();
    uint32_t at = l.tail++;
    for (; at != l.head && l.slots[(at - 1) & l.mask].time > time; --at)
      l.slots[at & l.mask] = l.slots[(at - 1) & l.mask];
    l.slots[at & l.mask] = {time, key, {}};
    if (at == l.head) set_head(kSoonLine + kHeaps, time);
  }
  void push_late(Time time, uint64_t key) { push_heap(kLate, time, key); }

  bool empty() const { return nodes_[1] == kNothing; }
  size_t size() const {
    size_t sum = heaps_[kSoon].size() + heaps_[kLate].size();
    for (const Line& l : lines_) sum += l.tail - l.head;
    return sum;
  }
  // kEnd when empty().
  Time next_time() const { return nodes_[1] >> kSourceBits; }

  // Precondition: not empty().
  Event pop() {
    const auto source = static_cast<uint32_t>(nodes_[1] & kSourceMask);
    if (source < kHeaps) return pop_heap(source);
    Line& l = lines_[source - kHeaps];
    const Event event = l.slots[l.head++ & l.mask];
    set_head(source, l.head == l.tail ? kEnd : l.slots[l.head & l.mask].time);
    return event;
  }

  size_t bytes() const {
    size_t sum = (heaps_[kSoon].capacity() + heaps_[kLate].capacity()) * sizeof(Timed);
    for (const Line& l : lines_) sum += (size_t{l.mask} + 1) * sizeof(Event);
    return sum;
  }

 private:
  static constexpr uint32_t kSourceBits = 8, kSourceMask = (1u << kSourceBits) - 1;
  static constexpr uint32_t kSoon = 0, kLate = 1, kHeaps = 2;
  static constexpr uint32_t kSoonLine = 0, kSteps = 16;
  static constexpr size_t kMaxLines = kSourceMask - kHeaps;
  static constexpr uint64_t kNothing = ~uint64_t{0};

  struct Delay {
    Time delay;
    uint32_t source;
    bool operator==(const Delay&) const = default;
  };
  struct Timed {
    Time time;
    uint64_t key;
  };
  struct Line {
    std::unique_ptr<Event[]> slots = std::make_unique<Event[]>(16);
    uint32_t head = 0, tail = 0;
    uint32_t mask = 15;

    void grow() {
      const uint32_t wanted = 2 * mask + 1;
      auto larger = std::make_unique<Event[]>(size_t{wanted} + 1);
      for (uint32_t i = head; i != tail; ++i) larger[i & wanted] = slots[i & mask];
      slots = std::move(larger);
      mask = wanted;
    }
  };
  static constexpr auto kLater = [](const Timed& a, const Timed& b) { return a.time > b.time; };

  void push_heap(uint32_t source, Time time, uint64_t key) {
    if (time >= kEnd) [[unlikely]]
      return;
    std::vector<Timed>& heap = heaps_[source];
    heap.push_back({time, key});
    std::push_heap(heap.begin(), heap.end(), kLater);
    if (heap.front().time == time) set_head(source, time);
  }

  Event pop_heap(uint32_t source) {
    std::vector<Timed>& heap = heaps_[source];
    const Timed first = heap.front();
    std::pop_heap(heap.begin(), heap.end(), kLater);
    heap.pop_back();
    set_head(source, heap.empty() ? kEnd : heap.front().time);
    if (strays_.empty()) [[likely]]
      return {first.time, first.key, {}};
    const auto stray = strays_.find({first.time, first.key});
    if (stray == strays_.end()) return {first.time, first.key, {}};
    const Event event{first.time, first.key, stray->second};
    strays_.erase(stray);
    return event;
  }

  // A node is the earlier of its two children: time and source in one word, so that a new head costs at most one
  // minimum a level. Leaves are sources: the heaps, then the lines.
  void set_head(uint32_t source, Time time) {
    uint64_t first = time == kEnd ? kNothing : time << kSourceBits | source;
    uint32_t node = leaves_ + source;
    uint64_t* const nodes = nodes_.data();
    nodes[node] = first;
    for (; node > 1; node /= 2) {
      first = std::min(first, nodes[node ^ 1]);
      if (nodes[node / 2] == first) return;  // so is everything above
      nodes[node / 2] = first;
    }
  }
  void grow_tree(uint32_t leaves) {
    std::vector<uint64_t> larger(2 * size_t{leaves}, kNothing);
    std::copy(nodes_.begin() + leaves_, nodes_.end(), larger.begin() + leaves);
    leaves_ = leaves;
    nodes_ = std::move(larger);
    for (uint32_t node = leaves - 1; node >= 1; --node) nodes_[node] = std::min(nodes_[2 * node], nodes_[2 * node + 1]);
  }

  std::vector<Delay> delays_;
  std::vector<Line> lines_;
  std::vector<Timed> heaps_[kHeaps];
  std::map<std::pair<Time, uint64_t>, Packet> strays_;  // packets of events that found no line
  std::vector<uint64_t> nodes_;                         // the root is 1
  uint32_t leaves_ = 0;
};

}  // namespace orrery::sim
