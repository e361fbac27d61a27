// A packet: on the wire, in a queue, in an event.
#pragma once

#include <cstdint>

#include "tools/sim/model/types.h"

namespace orrery::sim {

enum class PacketKind : uint8_t { kData = 0, kAck = 1, kNak = 2, kCnp = 3 };

// One packet on the wire or in a queue, moved by value: no packet is ever looked up.
struct Packet {
  uint32_t qp = 0;
  uint32_t psn = 0;    // data: its number; ack and nak: the next number that the receiver expects
  uint32_t path = 0;   // into PathTable
  uint16_t bytes = 0;  // on the wire
  uint8_t hop = 0;     // links of the path passed before this one
  uint8_t tag = 0;     // kind | congestion mark | control priority | telemetry

  // An ACK repeats the mark and the telemetry of the data packet that it answers.
  static constexpr uint8_t kMarked = 1 << 2;
  static constexpr uint8_t kControl = 1 << 3;
  static constexpr uint8_t kTelemetryShift = 4;
  static constexpr uint8_t kMaxLevel = 14;  // telemetry() is 0 when none is collected, else level + 1

  PacketKind kind() const { return static_cast<PacketKind>(tag & 3); }
  bool marked() const { return (tag & kMarked) != 0; }
  bool control() const { return (tag & kControl) != 0; }
  uint8_t telemetry() const { return tag >> kTelemetryShift; }
  void set_telemetry(uint8_t value) { tag = static_cast<uint8_t>((tag & 0x0f) | value << kTelemetryShift); }
};
static_assert(sizeof(Packet) == 16);

// In-band telemetry is coarse: the deepest queue met, as a power of two of kilobytes.
inline uint8_t queue_level(uint64_t bytes) {
  uint8_t level = 0;
  for (uint64_t kb = bytes / 1024; kb != 0 && level < Packet::kMaxLevel; kb /= 2) ++level;
  return level;
}

}  // namespace orrery::sim
