#include "controller/drivers/ebpf/link_monitor.h"

#include <fmt/format.h>
#include <linux/gen_stats.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace orrery::drivers::ebpf {
namespace {

constexpr size_t kReceiveBytes = 65536;
constexpr unsigned kUpAndRunning = IFF_UP | IFF_RUNNING;

Result<UniqueFd> open_netlink(uint32_t groups, int flags) {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE));
  if (!fd) return system_error("cannot open a netlink socket", errno);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return system_error("cannot bind a netlink socket", errno);
  return fd;
}

// Calls each(type, data, length) for every attribute.
template <typename Each>
void for_attributes(const void* first, size_t length, Each each) {
  const auto* attribute = static_cast<const rtattr*>(first);
  auto left = static_cast<int>(length);
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
    each(attribute->rta_type & NLA_TYPE_MASK, RTA_DATA(attribute), static_cast<size_t>(RTA_PAYLOAD(attribute)));
}

template <typename Value>
Value read_value(const void* data, size_t length) {
  Value value{};
  std::memcpy(&value, data, std::min(length, sizeof(value)));
  return value;
}

std::optional<Interface> parse_interface(uint16_t type, const void* payload, size_t length) {
  if ((type != RTM_NEWLINK && type != RTM_DELLINK) || length < sizeof(ifinfomsg)) return std::nullopt;
  const auto header = read_value<ifinfomsg>(payload, length);
  if (header.ifi_family != AF_UNSPEC) return std::nullopt;  // bridge notices
  Interface interface;
  interface.ifindex = static_cast<uint32_t>(header.ifi_index);
  interface.removed = type == RTM_DELLINK;
  interface.up = !interface.removed && (header.ifi_flags & kUpAndRunning) == kUpAndRunning;
  const auto* attributes = static_cast<const char*>(payload) + NLMSG_ALIGN(sizeof(ifinfomsg));
  for_attributes(
      attributes, length - NLMSG_ALIGN(sizeof(ifinfomsg)), [&](int attribute, const void* data, size_t size) {
        if (attribute == IFLA_IFNAME)
          interface.name.assign(static_cast<const char*>(data), strnlen(static_cast<const char*>(data), size));
        if (attribute == IFLA_STATS64) {
          const auto stats = read_value<rtnl_link_stats64>(data, size);
          interface.rx_packets = stats.rx_packets;
          interface.rx_bytes = stats.rx_bytes;
          interface.tx_packets = stats.tx_packets;
          interface.tx_bytes = stats.tx_bytes;
        }
      });
  return interface;
}

// Hands every message of a datagram to each(); returns false at the end of a dump. An error answer comes back as its
// errno.
template <typename Each>
Result<bool> for_messages(const char* data, size_t length, Each each) {
  const auto* header = reinterpret_cast<const nlmsghdr*>(data);
  auto left = static_cast<unsigned>(length);
  for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
    if (header->nlmsg_type == NLMSG_DONE) return false;
    if (header->nlmsg_type == NLMSG_ERROR) {
      const auto error = read_value<nlmsgerr>(NLMSG_DATA(header), NLMSG_PAYLOAD(header, 0));
      return system_error("the kernel refused a netlink request", -error.error);
    }
    each(*header, NLMSG_DATA(header), static_cast<size_t>(NLMSG_PAYLOAD(header, 0)));
  }
  return true;
}

}  // namespace

Result<LinkMonitor> LinkMonitor::create() {
  LinkMonitor monitor;
  ORRERY_ASSIGN(monitor.events_, open_netlink(RTMGRP_LINK, SOCK_NONBLOCK));
  const int room = 1 << 20;  // changes must not be lost while this process waits for a processor
  setsockopt(monitor.events_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
  ORRERY_ASSIGN(monitor.requests_, open_netlink(0, 0));
  const timeval limit{.tv_sec = 2, .tv_usec = 0};
  setsockopt(monitor.requests_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  return monitor;
}

Result<std::vector<Interface>> LinkMonitor::changes() {
  std::vector<Interface> changed;
  alignas(nlmsghdr) std::array<char, kReceiveBytes> buffer;
  for (;;) {
    const ssize_t received = recv(events_.get(), buffer.data(), buffer.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && errno == ENOBUFS) return interfaces();
    if (received < 0 && errno == EAGAIN) return changed;
    if (received < 0) return system_error("cannot read link changes", errno);
    ORRERY_TRY(for_messages(buffer.data(), static_cast<size_t>(received),
                            [&](const nlmsghdr& header, const void* payload, size_t length) {
                              if (auto interface = parse_interface(header.nlmsg_type, payload, length))
                                changed.push_back(std::move(*interface));
                            }));
  }
}

Status LinkMonitor::dump(uint16_t type, const void* body, size_t length, const Message& each) {
  alignas(nlmsghdr) std::array<char, 256> request{};
  auto* header = reinterpret_cast<nlmsghdr*>(request.data());
  header->nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(length));
  header->nlmsg_type = type;
  header->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  header->nlmsg_seq = ++sequence_;
  std::memcpy(NLMSG_DATA(header), body, length);
  if (send(requests_.get(), request.data(), header->nlmsg_len, 0) < 0)
    return system_error("cannot ask the kernel for a list", errno);
  alignas(nlmsghdr) std::array<char, kReceiveBytes> buffer;
  for (bool more = true; more;) {
    const ssize_t received = recv(requests_.get(), buffer.data(), buffer.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0) return system_error("no answer from the kernel's netlink", errno);
    ORRERY_ASSIGN(more, for_messages(buffer.data(), static_cast<size_t>(received),
                                     [&](const nlmsghdr& message, const void* payload, size_t size) {
                                       if (message.nlmsg_seq == sequence_) each(message.nlmsg_type, payload, size);
                                     }));
  }
  return {};
}

Result<std::vector<Interface>> LinkMonitor::interfaces() {
  std::vector<Interface> all;
  ifinfomsg body{};
  ORRERY_TRY(dump(RTM_GETLINK, &body, sizeof(body), [&](uint16_t type, const void* payload, size_t length) {
    if (auto interface = parse_interface(type, payload, length)) all.push_back(std::move(*interface));
  }));
  return all;
}

Result<std::unordered_map<uint32_t, QueueDrops>> LinkMonitor::queue_drops() {
  std::unordered_map<uint32_t, QueueDrops> drops;
  tcmsg body{};
  ORRERY_TRY(dump(RTM_GETQDISC, &body, sizeof(body), [&](uint16_t type, const void* payload, size_t length) {
    if (type != RTM_NEWQDISC || length < sizeof(tcmsg)) return;
    const auto header = read_value<tcmsg>(payload, length);
    if (header.tcm_parent != TC_H_ROOT) return;
    const auto* attributes = static_cast<const char*>(payload) + NLMSG_ALIGN(sizeof(tcmsg));
    for_attributes(attributes, length - NLMSG_ALIGN(sizeof(tcmsg)), [&](int attribute, const void* data, size_t size) {
      if (attribute != TCA_STATS2) return;
      for_attributes(data, size, [&](int nested, const void* value, size_t value_size) {
        if (nested != TCA_STATS_QUEUE) return;
        const auto queue = read_value<gnet_stats_queue>(value, value_size);
        drops[static_cast<uint32_t>(header.tcm_ifindex)] = {queue.drops, queue.backlog};
      });
    });
  }));
  return drops;
}

}  // namespace orrery::drivers::ebpf
