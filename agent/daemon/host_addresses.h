// The addresses of this host's network interfaces: what a process or a plan may call "this host".
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "common/base/ip_address.h"

namespace orrery::daemon {

class HostAddresses {
 public:
  // `interface`: the NIC of the training traffic; empty: all but the loopback. `extra`: more addresses that count as
  // the host's, for containers with addresses of their own. `only_interface`: those of other interfaces do not, because
  // they are other hosts' in the fabric (several agents on one machine).
  HostAddresses(std::string interface, bool only_interface, std::vector<IpAddress> extra);

  // Loopback addresses are always local. Looks at the interfaces again, at most once a second, before it says no.
  bool is_local(const IpAddress& address);
  // First IPv4 address of the NIC, else its first address, else "::".
  IpAddress nic_address() const { return addresses_.empty() ? IpAddress() : addresses_.front(); }
  const std::vector<IpAddress>& all() const { return addresses_; }
  void refresh(uint64_t now_ns);

 private:
  const std::string interface_;
  const bool only_interface_;
  const std::vector<IpAddress> extra_;
  std::vector<IpAddress> addresses_;  // of the NIC, IPv4 first, then extra
  std::unordered_set<IpAddress> local_;
  uint64_t refreshed_ns_ = 0;
};

}  // namespace orrery::daemon
