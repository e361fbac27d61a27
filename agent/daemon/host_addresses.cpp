#include "agent/daemon/host_addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

#include "common/base/clock.h"

namespace orrery::daemon {
namespace {

constexpr uint64_t kRefreshNs = 1'000'000'000;

IpAddress address_of(const sockaddr& socket_address) {
  if (socket_address.sa_family == AF_INET)
    return IpAddress::from_v4(ntohl(reinterpret_cast<const sockaddr_in&>(socket_address).sin_addr.s_addr));
  return IpAddress::from_bytes(reinterpret_cast<const sockaddr_in6&>(socket_address).sin6_addr.s6_addr);
}

bool is_loopback(const IpAddress& address) {
  if (const auto v4 = address.v4()) return *v4 >> 24 == 127;
  static constexpr uint8_t kLoopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address == IpAddress::from_bytes(kLoopback);
}

}  // namespace

HostAddresses::HostAddresses(std::string interface, bool only_interface, std::vector<IpAddress> extra)
    : interface_(std::move(interface)), only_interface_(only_interface), extra_(std::move(extra)) {
  refresh(monotonic_now_ns());
}

void HostAddresses::refresh(uint64_t now_ns) {
  refreshed_ns_ = now_ns;
  addresses_.clear();
  local_.clear();
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      const bool has_address = entry->ifa_addr != nullptr &&
                               (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6);
      if (!has_address || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
      const IpAddress address = address_of(*entry->ifa_addr);
      const bool of_nic = interface_.empty() || interface_ == entry->ifa_name;
      if (of_nic || !only_interface_) local_.insert(address);
      if (of_nic) addresses_.push_back(address);
    }
  }
  std::stable_partition(addresses_.begin(), addresses_.end(), [](const IpAddress& a) { return a.v4().has_value(); });
  addresses_.insert(addresses_.end(), extra_.begin(), extra_.end());
  local_.insert(extra_.begin(), extra_.end());
}

bool HostAddresses::is_local(const IpAddress& address) {
  if (is_loopback(address) || local_.contains(address)) return true;
  const uint64_t now_ns = monotonic_now_ns();
  if (now_ns - refreshed_ns_ < kRefreshNs) return false;
  refresh(now_ns);
  return local_.contains(address);
}

}  // namespace orrery::daemon
