// The switch's ports as interfaces of this network namespace: which interface each one is and whether its link is up.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/drivers/ebpf/forwarding_table.h"
#include "controller/drivers/ebpf/link_monitor.h"

namespace orrery::drivers::ebpf {

struct PortChange {
  uint8_t port = 0;
  bool up = false;
  bool rebound = false;  // now another interface: the programs must be attached to it
};

class PortTable {
 public:
  // kNotFound names every port that has no interface of its name.
  static Result<PortTable> bind(const ForwardingTable& table, std::span<const Interface> interfaces);

  // What the interfaces' new states change, in order.
  std::vector<PortChange> update(std::span<const Interface> changes);

  size_t size() const { return names_.size(); }
  const std::string& name(uint8_t port) const { return names_[port]; }
  std::span<const uint32_t> ifindexes() const { return ifindexes_; }
  uint64_t up() const { return up_; }  // bit per port

 private:
  std::vector<std::string> names_;
  std::vector<uint32_t> ifindexes_;  // 0: the interface is gone
  uint64_t up_ = 0;
};

}  // namespace orrery::drivers::ebpf
