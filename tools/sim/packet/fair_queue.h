// The data of one port, a queue for each connection, served in turn. With windows that keep every connection waiting
// somewhere, its rate is then the max-min fair one (Hahne 1991), which a first-in-first-out queue does not give.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "tools/sim/packet/packet.h"

namespace orrery::sim {

// In turn by packets, not bytes: nearly all of a connection's are full.
class FairQueue {
 public:
  void push(const Packet& packet) {
    std::deque<Packet>& waiting = waiting_[packet.qp];
    if (waiting.empty()) turns_.push_back(packet.qp);
    waiting.push_back(packet);
  }

  // Precondition: not empty.
  Packet pop() {
    std::deque<Packet>& waiting = waiting_[turns_.front()];
    const Packet packet = waiting.front();
    waiting.pop_front();
    turns_.pop_front();
    if (!waiting.empty()) turns_.push_back(packet.qp);
    return packet;
  }

 private:
  std::unordered_map<uint32_t, std::deque<Packet>> waiting_;  // by queue pair
  std::deque<uint32_t> turns_;
};

}  // namespace orrery::sim
