// What the controller wants back after a restart. Passive data; links are saved by name, because a topology file may
// change in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ip_address.h"

namespace orrery::state {

struct SavedFlow {
  uint64_t flow_id = 0;
  uint64_t comm_id = 0;
  FiveTuple tuple;                // ports 0 for a plan of all connections of the pair
  std::vector<std::string> path;  // "leaf1:p5"
  uint64_t bytes = 0;
  friend bool operator==(const SavedFlow&, const SavedFlow&) = default;
};

struct SavedCommunicator {
  uint64_t comm_id = 0;
  std::vector<IpAddress> ranks;  // address by rank
  friend bool operator==(const SavedCommunicator&, const SavedCommunicator&) = default;
};

// One operation learned of the communicators whose ranks sit on the same hosts in the same order.
struct SavedSignature {
  uint64_t hosts_hash = 0;
  uint16_t op = 0;
  uint64_t bytes = 0;
  uint32_t peer = 0xffffffff;
  friend bool operator==(const SavedSignature&, const SavedSignature&) = default;
};

struct SavedState {
  uint64_t next_flow_id = 1;
  std::vector<SavedFlow> flows;
  std::vector<SavedCommunicator> communicators;
  std::vector<SavedSignature> signatures;
  friend bool operator==(const SavedState&, const SavedState&) = default;
};

}  // namespace orrery::state
