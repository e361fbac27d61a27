// What the flow-level engine needs to know beyond fabric and program; defaults as in packet/config.h.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/model/fault.h"
#include "tools/sim/model/watch.h"

namespace orrery::sim {

// How flows share links. priced_shares.h has what the last two stand for.
enum class Sharing : uint8_t {
  kMaxMin,   // switches serve flows in turn; or senders of whose reaction to queues nothing is known
  kWindows,  // first in, first out, windows of equal bytes
  kDcqcn     // first in, first out, DCQCN that has settled
};

struct FluidConfig {
  Sharing sharing = Sharing::kMaxMin;
  uint32_t payload_bytes = 4'000;
  uint32_t header_bytes = 64;   // on the wire with every packet
  uint32_t control_bytes = 64;  // an ACK: it takes time on its way back; with kMaxMin no capacity
  uint32_t ack_every = 1;       // packets
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
