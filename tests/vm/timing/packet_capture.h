// RoCEv2 requests as they leave an interface, with the time the kernel saw them.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace orrery {

struct RocePacket {
  uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  uint16_t udp_sport = 0;
  uint8_t opcode = 0;  // of the BTH
  uint32_t dest_qpn = 0;

  // A packet of an RDMA write, of any kind and part.
  bool is_write() const { return opcode >= 0x06 && opcode <= 0x0b; }
};

// Collects in a thread of its own from construction to stop(). Throws std::runtime_error without the right to capture.
class PacketCapture {
 public:
  explicit PacketCapture(const std::string& interface);
  ~PacketCapture();
  // All outgoing RoCEv2 packets so far, in order.
  std::vector<RocePacket> stop();

 private:
  void run();

  int socket_ = -1;
  bool stopping_ = false;
  std::vector<RocePacket> packets_;
  std::thread thread_;
};

}  // namespace orrery
