#include "tests/vm/timing/packet_capture.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace orrery {
namespace {

constexpr uint16_t kRocePort = 4791;
constexpr int kReceiveBuffer = 64 << 20;
constexpr size_t kEthernet = 14, kUdp = 8, kBth = 12;

uint64_t nanoseconds(const timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uint64_t read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return nanoseconds(now);
}

uint16_t be16(const unsigned char* at) {
  return static_cast<uint16_t>(at[0] << 8 | at[1]);
}

bool parse(const unsigned char* frame, size_t bytes, RocePacket* packet) {
  if (bytes < kEthernet + 20) return false;
  const unsigned char* ip = frame + kEthernet;
  const size_t ip_bytes = size_t{ip[0] & 15u} * 4;
  if (ip[0] >> 4 != 4 || ip[9] != IPPROTO_UDP || bytes < kEthernet + ip_bytes + kUdp + kBth) return false;
  const unsigned char* udp = ip + ip_bytes;
  if (be16(udp + 2) != kRocePort) return false;
  packet->udp_sport = be16(udp);
  const unsigned char* bth = udp + kUdp;
  packet->opcode = bth[0];
  packet->dest_qpn = static_cast<uint32_t>(bth[5] << 16 | bth[6] << 8 | bth[7]);
  return true;
}

}  // namespace

PacketCapture::PacketCapture(const std::string& interface) {
  socket_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  const int on = 1;
  if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      setsockopt(socket_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) != 0)
    throw std::runtime_error("cannot capture on " + interface);
  setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof(kReceiveBuffer));
  thread_ = std::thread([this] { run(); });
}

PacketCapture::~PacketCapture() {
  if (thread_.joinable()) stop();
  close(socket_);
}

std::vector<RocePacket> PacketCapture::stop() {
  __atomic_store_n(&stopping_, true, __ATOMIC_RELEASE);
  thread_.join();
  return packets_;
}

void PacketCapture::run() {
  const uint64_t offset = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_MONOTONIC);
  for (;;) {
    pollfd ready{socket_, POLLIN, 0};
    if (poll(&ready, 1, 50) <= 0) {
      if (__atomic_load_n(&stopping_, __ATOMIC_ACQUIRE)) return;
      continue;
    }
    unsigned char frame[256];
    iovec data{frame, sizeof(frame)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
    sockaddr_ll from{};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof(from);
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(socket_, &message, MSG_DONTWAIT);
    RocePacket packet;
    if (got <= 0 || from.sll_pkttype != PACKET_OUTGOING || !parse(frame, static_cast<size_t>(got), &packet)) continue;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SO_TIMESTAMPNS) continue;
      timespec stamp;
      std::memcpy(&stamp, CMSG_DATA(part), sizeof(stamp));
      packet.time_ns = nanoseconds(stamp) - offset;
    }
    packets_.push_back(packet);
  }
}

}  // namespace orrery
