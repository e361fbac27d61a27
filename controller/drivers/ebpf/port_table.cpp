#include "controller/drivers/ebpf/port_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace orrery::drivers::ebpf {

Result<PortTable> PortTable::bind(const ForwardingTable& table, std::span<const Interface> interfaces) {
  PortTable ports;
  std::vector<std::string> missing;
  for (size_t i = 0; i < table.ports.size(); ++i) {
    const auto& name = table.ports[i].name;
    const auto found =
        std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& known) { return known.name == name; });
    if (found == interfaces.end()) missing.push_back(name);
    ports.names_.push_back(name);
    ports.ifindexes_.push_back(found == interfaces.end() ? 0 : found->ifindex);
    if (found != interfaces.end() && found->up) ports.up_ |= uint64_t{1} << i;
  }
  if (!missing.empty())
    return Error{
        ErrorCode::kNotFound,
        fmt::format("this network namespace has no interface for port{} {} of switch '{}'; run orrery-switch in the "
                    "switch's namespace, where each port is an interface of the port's name",
                    missing.size() > 1 ? "s" : "", fmt::join(missing, ", "), table.switch_name)};
  return ports;
}

std::vector<PortChange> PortTable::update(std::span<const Interface> changes) {
  std::vector<PortChange> changed;
  for (const auto& interface : changes) {
    const auto named = std::find(names_.begin(), names_.end(), interface.name);
    if (named == names_.end()) continue;
    const auto port = static_cast<size_t>(named - names_.begin());
    const uint64_t bit = uint64_t{1} << port;
    if (interface.removed && ifindexes_[port] != interface.ifindex) continue;  // an older interface of that name
    const uint32_t ifindex = interface.removed ? 0 : interface.ifindex;
    const PortChange change{static_cast<uint8_t>(port), interface.up, ifindex != 0 && ifindex != ifindexes_[port]};
    const bool was_up = up_ & bit;
    ifindexes_[port] = ifindex;
    up_ = interface.up ? up_ | bit : up_ & ~bit;
    if (was_up != interface.up || change.rebound) changed.push_back(change);
  }
  return changed;
}

}  // namespace orrery::drivers::ebpf
