// What the packet simulator counts in. Times are picoseconds: a byte is a whole number of them at every Ethernet rate.
#pragma once

#include <cstdint>

namespace orrery::sim {

using Time = uint64_t;
inline constexpr Time kPerNs = 1'000;
inline constexpr Time kPerUs = 1'000'000;
inline constexpr Time kPerMs = 1'000'000'000;
inline constexpr Time kNever = ~Time{0};
inline constexpr uint32_t kNone = 0xffffffff;

enum class PacketKind : uint8_t { kData = 0, kAck = 1, kNak = 2, kCnp = 3 };

// One packet on the wire or in a queue, moved by value: no packet is ever looked up.
struct Packet {
  uint32_t qp = 0;
  uint32_t psn = 0;    // data: its number; ack and nak: the next number that the receiver expects
  uint32_t path = 0;   // into PathTable
  uint16_t bytes = 0;  // on the wire
  uint8_t hop = 0;     // links of the path passed before this one
  uint8_t tag = 0;     // kind | congestion mark | priority

  static constexpr uint8_t kMarked = 1 << 2;
  static constexpr uint8_t make_tag(PacketKind kind, uint8_t priority) {
    return static_cast<uint8_t>(static_cast<uint8_t>(kind) | priority << 3);
  }
  PacketKind kind() const { return static_cast<PacketKind>(tag & 3); }
  bool marked() const { return (tag & kMarked) != 0; }
  uint8_t priority() const { return static_cast<uint8_t>(tag >> 3); }
};
static_assert(sizeof(Packet) == 16);

inline constexpr uint32_t kMaxPathLinks = 8;  // a five-tier fabric
struct PathLinks {
  uint32_t links[kMaxPathLinks];  // ends with kNone when shorter
};

}  // namespace orrery::sim
