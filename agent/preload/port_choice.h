// Which source port makes a connection take the planned path. Pure.
#pragma once

#include "agent/preload/endpoint.h"
#include "common/abi/plan_abi.h"

namespace orrery::preload {

class PortChoice {
 public:
  // `local` and `remote` are what the packets will carry. Ports are tried from a point that `start` selects.
  PortChoice(const orrery_plan_entry& entry, const Endpoint& local, const Endpoint& remote, uint32_t start);

  // The next port that wins every hop, 0 when the range is exhausted (or the entry leaves the port to the kernel, or
  // cannot be hashed).
  uint16_t next();

  // Whether `port` takes the planned path: it is one that next() could give.
  bool takes(uint16_t port) const;

 private:
  bool wins(uint16_t port) const;

  const orrery_plan_entry& entry_;
  uint32_t local_ = 0, remote_ = 0;
  uint16_t remote_port_;
  uint32_t range_ = 0;  // ports in the range
  uint32_t start_ = 0;
  uint32_t tried_ = 0;
};

}  // namespace orrery::preload
