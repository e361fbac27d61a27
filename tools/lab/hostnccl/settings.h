// The environment variables hostnccl obeys (listed in docs/reference/hostnccl.md), read once per communicator.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace orrery::hostnccl {

// What all ranks of a communicator must agree on; rank 0's values win. Crosses the wire in the bootstrap's table.
struct SharedSettings {
  uint32_t channels = 1;     // 1..32
  uint32_t sockets = 1;      // data sockets per channel and peer, 1..64
  uint32_t slice_bytes = 0;  // 4 KiB..4 MiB, a multiple of 64; 0 until the network is agreed: its default
  uint16_t queue_pairs = 1;  // per channel and peer, 1..128
  uint16_t split_data = 0;   // 1: a message is divided between all queue pairs, 0: the next one takes it whole
};
static_assert(sizeof(SharedSettings) == 16);

enum class NetworkChoice { kAny, kSocket, kVerbs };

// How the proxy thread waits for completions, which no file descriptor announces. Counted in polls that found nothing.
struct PollSettings {
  uint32_t spins = 100;         // polls at once,
  uint32_t yields = 100;        // then after a sched_yield,
  uint32_t sleep_us = 50;       // then after a sleep, twice as long each time
  uint32_t sleep_max_us = 500;  // up to this
};

// One process's own; the peers may differ.
struct VerbsSettings {
  std::string hca;  // NCCL_IB_HCA
  std::optional<int> gid_index;
  uint8_t timeout = 20;  // 4.096 us x 2^timeout before a packet is sent again
  uint8_t retries = 7;
  uint8_t traffic_class = 0;
  uint8_t cts_traffic_class = 0;
  uint8_t service_level = 0;
  uint16_t pkey_index = 0;
  bool adaptive_routing = false;  // payload and immediate apart, for messages above adaptive_threshold
  uint32_t adaptive_threshold = 8192;
  bool inline_cts = true;
  bool relaxed_ordering = true;
  bool flush = false;
  PollSettings poll;
};

struct Settings {
  SharedSettings shared;
  NetworkChoice network = NetworkChoice::kAny;
  VerbsSettings verbs;
  std::chrono::seconds join_timeout{120};  // waiting for all ranks of a communicator to join
  std::chrono::seconds peer_timeout{30};   // connecting to a peer, or a peer host that stopped answering
  std::string interface;                   // NCCL_SOCKET_IFNAME
};

// Errors: kInvalidArgument names the variable, its value and the range.
Result<Settings> read_settings();

}  // namespace orrery::hostnccl
