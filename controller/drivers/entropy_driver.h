// Driver `entropy`: no switch changes. The path of a flow becomes the hashing decisions on its way, and the sending
// host picks a source port whose hash wins them all. Works with any switch whose hash function and seed the topology
// file names.
#pragma once

#include "controller/drivers/driver.h"

namespace orrery::drivers {

struct PortRange {
  uint16_t first = 32768;  // inclusive; the kernel's own range by default
  uint16_t last = 60999;
};

// Of RoCEv2, whatever the settings: the flow label can name no other.
inline constexpr PortRange kRocePorts = {49152, 65535};

class EntropyDriver : public Driver {
 public:
  // `fabric` outlives the driver.
  EntropyDriver(const fabric::Graph& fabric, PortRange ports) : fabric_(fabric), ports_(ports) {}

  std::string_view name() const override { return "entropy"; }
  Capabilities capabilities() const override { return {.exact_path = true}; }
  // kRefused: a switch with several ways whose hash is unknown, more decisions than a plan entry holds, a path no hash
  // can give, or a flow that exists and hashes elsewhere.
  Result<HostDirective> direct(const Flow& flow) override;
  void apply(Revision revision, const std::vector<Flow>& flows, uint64_t lease_ns, Completion done) override;
  void renew(Revision revision, uint64_t lease_ns) override;
  void withdraw() override {}

 private:
  const fabric::Graph& fabric_;
  PortRange ports_;
};

}  // namespace orrery::drivers
