// QueuePair of schemas/common.capnp as a value. Field meanings and units are the schema's.
#pragma once

#include <cstdint>
#include <string>

namespace orrery::msg {

struct QueuePair {
  uint32_t qpn = 0;
  uint32_t dest_qpn = 0;
  std::string device;
  uint8_t flags = 0;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  uint32_t cycle = 0;
  uint32_t moves = 0;
  uint64_t posted_sends = 0;
  uint64_t completed_sends = 0;
  uint64_t completion_errors = 0;
  uint64_t failed_posts = 0;
  uint64_t deferred_sends = 0;
  uint64_t drained_early = 0;
  friend bool operator==(const QueuePair&, const QueuePair&) = default;
};

}  // namespace orrery::msg
