// The environment variables hostnccl obeys (listed in docs/reference/hostnccl.md), read once per communicator.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace orrery::hostnccl {

// What all ranks of a communicator must agree on; rank 0's values win. Crosses the wire in the bootstrap's table.
struct SharedSettings {
  uint32_t channels = 1;     // 1..32
  uint32_t sockets = 1;      // data sockets per channel and peer, 1..64
  uint32_t slice_bytes = 0;  // 4 KiB..4 MiB, a multiple of 64
  uint32_t reserved = 0;
};
static_assert(sizeof(SharedSettings) == 16);

struct Settings {
  SharedSettings shared;
  std::chrono::seconds join_timeout{120};  // waiting for all ranks of a communicator to join
  std::chrono::seconds peer_timeout{30};   // connecting to a peer, or a peer host that stopped answering
  std::string interface;                   // NCCL_SOCKET_IFNAME
};

// Errors: kInvalidArgument names the variable, its value and the range.
Result<Settings> read_settings();

}  // namespace orrery::hostnccl
