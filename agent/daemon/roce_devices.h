// Which RDMA devices speak RoCEv2 from addresses of this host: what the kernel says in sysfs. No library of RDMA is
// needed for it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/ip_address.h"

namespace orrery::daemon {

inline constexpr const char* kRdmaClassPath = "/sys/class/infiniband";

// Names of the devices with a port whose GID table has a RoCEv2 entry for one of `addresses`, sorted. `class_path`:
// kRdmaClassPath, or a copy of it in tests. What cannot be read counts as not there.
std::vector<std::string> find_roce_devices(const std::filesystem::path& class_path,
                                           const std::vector<IpAddress>& addresses);

}  // namespace orrery::daemon
