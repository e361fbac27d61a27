// What changes while a simulation runs. Every entry belongs to one node and so to one domain: domains share the arrays,
// never an entry. Where an entry's neighbours often belong to another domain, it has a pair of cache lines to itself:
// processors fetch them in pairs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tools/sim/model/program.h"
#include "tools/sim/packet/config.h"
#include "tools/sim/packet/fair_queue.h"
#include "tools/sim/packet/packet.h"
#include "tools/sim/packet/wires.h"

namespace orrery::sim {

// The next number of a generator (xorshift, Marsaglia 2003) that belongs to one port or queue pair. Never 0.
inline uint32_t draw(uint32_t& state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

// A queue of packets; grows, never shrinks.
class PacketRing {
 public:
  PacketRing() = default;
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;
  ~PacketRing() { std::free(slots_); }

  bool empty() const { return head_ == tail_; }
  uint32_t size() const { return tail_ - head_; }
  const Packet& front() const { return slots_[head_ & mask_]; }
  void push(const Packet& packet) {
    if (slots_ == nullptr || tail_ - head_ > mask_) grow();
    slots_[tail_++ & mask_] = packet;
  }
  Packet pop() { return slots_[head_++ & mask_]; }
  size_t bytes() const { return slots_ != nullptr ? (size_t{mask_} + 1) * sizeof(Packet) : 0; }

 private:
  void grow();
  Packet* slots_ = nullptr;
  uint32_t head_ = 0, tail_ = 0;
  uint32_t mask_ = 0;
};

// A port: the transmitter of a link with the queues before it and, for PFC, what came in by the cable's other link and
// still waits at this switch. First cache line: what every packet touches.
struct alignas(128) Port {
  Time busy_until = 0;
  PacketRing data;
  uint64_t sent_bytes = 0;
  uint32_t queued_bytes = 0;  // of data
  uint32_t queued_control_bytes = 0;
  uint32_t random = 0;  // state of the marking's own generator
  uint32_t owner = 0;   // the host, or the node of the switch
  uint16_t wire_class = 0;
  uint8_t far_domain = 0;  // of the link's end
  bool at_host = false;
  bool wake_pending = false;
  bool data_paused = false;
  bool down = false;
  bool discards_data = false;  // the PFC watchdog has struck

  PacketRing control;
  uint32_t ingress_bytes = 0;
  // Changes of the pause that it has asked of, and been asked by, the port at the cable's other end; odd: paused.
  uint16_t pauses_sent = 0, pauses_heard = 0;
  uint32_t max_queued_bytes = 0;
  uint32_t drops = 0;
  uint32_t marks = 0;
  uint32_t pauses = 0;
  Time paused_since = 0;
  Time paused_time = 0;
};
static_assert(sizeof(Port) == 128);

// Links of one rate that end alike: a packet of some size takes equally long on all of them.
struct WireClass {
  uint64_t scale = 0;  // as Wire::scale
  bool to_host = false;

  Time time_of(uint64_t bytes) const { return (bytes * scale) >> 16; }
};

struct alignas(64) SwitchBuffer {
  uint64_t used = 0;
  uint64_t peak = 0;
};

struct alignas(64) Nic {
  uint32_t first_ready = kNone, last_ready = kNone;  // queue pairs that may send now, in turn
};

// First cache line: what every packet and ACK touches.
struct alignas(128) QpSender {
  uint32_t next_psn = 0;
  uint32_t acked_psn = 0;
  uint32_t posted_psn = 0;    // packets of released messages, all messages before them released too
  uint32_t sending = 0;       // the message that holds next_psn; position in Program::qp_messages
  uint32_t acked = 0;         // the first not wholly acknowledged; the same
  uint32_t end_messages = 0;  // behind the last; the same
  uint32_t path = kNone;      // of the last packet
  uint32_t next_ready = kNone;
  double rate_bps = 0;  // 0: as fast as the NIC
  Time next_send = 0;
  Time retransmit_at = kNever;  // the real deadline; the timer event may be earlier
  bool in_ready = false;        // or waiting for next_send
  bool timer_pending = false;
  bool has_choice = false;  // of paths
  uint8_t level = 0;        // deepest queue that telemetry told of
  uint32_t host = 0;

  uint32_t posted_messages = 0;  // of its own
  uint32_t path_position = 0;    // in the queue pair's own
  uint32_t random = 1;
  uint32_t round_end = 0;  // kRehash: the psn that ends the present round trip
  uint32_t round_acks = 0, round_marks = 0, bad_rounds = 0;
  uint32_t retransmitted = 0, path_changes = 0;  // as Totals has them
  Time last_sent = 0;
};

// Paths whose ACKs came back unmarked, newest last; kRecycle only.
struct RecycledPaths {
  static constexpr uint32_t kMost = 16;
  uint32_t positions[kMost];
  uint32_t count = 0;
};

// Selective repeat only: what the sender must send again, and what the receiver got ahead of the expected packet.
struct ReorderWindow {
  std::vector<uint32_t> resend;

  static constexpr uint32_t kPackets = 2048;
  uint64_t bits[kPackets / 64] = {};
  bool test(uint32_t psn) const { return (bits[psn % kPackets / 64] >> psn % 64 & 1) != 0; }
  void set(uint32_t psn) { bits[psn % kPackets / 64] |= uint64_t{1} << psn % 64; }
  void clear(uint32_t psn) { bits[psn % kPackets / 64] &= ~(uint64_t{1} << psn % 64); }
};

struct alignas(128) QpReceiver {
  uint32_t expected_psn = 0;
  uint32_t receiving = 0;  // the first not wholly delivered; position in Program::qp_messages
  uint32_t unacknowledged = 0;
  uint32_t asked = 0;  // packets below this number that are missing have been asked for
  Time next_cnp = 0;
  Time ask_again = kNever;  // selective repeat: when to ask anew for the first missing packet
};

// Reaction point of DCQCN; names as in the paper.
struct alignas(128) RateControl {
  double target_bps = 0;
  double alpha = 1;
  uint64_t bytes_since = 0;
  uint32_t timer_stage = 0;
  uint32_t byte_stage = 0;
  Time last_cnp = kNever;
  Time rate_due = kNever;
};

// In the order of Program::qp_messages: what a queue pair needs next lies next.
struct MessageState {
  uint32_t message = 0;  // index in Program::messages
  uint32_t first_psn = 0;
  uint32_t packets = 0;
  uint32_t last_payload_bytes = 0;
  bool released = false;
  Time released_at = kNever;
  Time delivered_at = kNever;
};

struct StepState {
  uint32_t pending = 0;
  Time done_at = kNever;
};

struct World {
  const PacketConfig config;
  const Program& program;
  const Wires wires;
  std::vector<uint32_t> domain_of_node;

  std::unique_ptr<Port[]> ports;  // by link
  std::vector<WireClass> wire_classes;
  std::vector<FairQueue> fair;        // by link, or empty; the port's own queue then only counts
  std::vector<SwitchBuffer> buffers;  // by node
  std::vector<Nic> nics;              // by host
  std::vector<QpSender> senders;
  std::vector<QpReceiver> receivers;
  std::vector<RateControl> rates;
  std::vector<RecycledPaths> recycled;     // by queue pair, or empty
  std::vector<ReorderWindow> reordered;    // by queue pair, or empty
  std::vector<MessageState> messages;      // by position in Program::qp_messages
  std::vector<uint32_t> message_position;  // by message
  std::vector<StepState> steps;

  World(const Program& program, Wires wires, const PacketConfig& config, std::vector<uint32_t> domain_of_node);
};

}  // namespace orrery::sim
