// What the flow-level engine needs to know beyond fabric and program; defaults as in packet/config.h.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/model/fault.h"
#include "tools/sim/model/watch.h"

namespace orrery::sim {

struct FluidConfig {
  uint32_t payload_bytes = 4'000;
  uint32_t header_bytes = 64;   // on the wire with every packet
  uint32_t control_bytes = 64;  // an ACK: it takes time on its way back, but no capacity
  bool cut_through = false;
  Time forwarding_delay = 0;
  Time propagation = 1 * kPerUs;  // of every link
  std::vector<Fault> faults;
  Time fault_detection = 10 * kPerMs;
  // Rates are max-min fair to this part of a rate: what changes less is not passed on to flows elsewhere. 1e-9: exact.
  double tolerance = 1e-3;
  Recording recording;
};

}  // namespace orrery::sim
