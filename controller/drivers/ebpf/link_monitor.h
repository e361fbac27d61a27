// What the kernel says of this network namespace's interfaces, over rtnetlink: state changes as they happen, and on
// request the state, byte counts and queue drops of all of them. Owned by one thread; never blocks longer than the
// kernel takes to answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace orrery::drivers::ebpf {

struct Interface {
  uint32_t ifindex = 0;
  std::string name;
  bool removed = false;
  bool up = false;  // administratively up and with carrier: of a veth pair, both ends are up
  uint64_t rx_packets = 0, rx_bytes = 0;
  uint64_t tx_packets = 0, tx_bytes = 0;  // what really left: after the queue
};

struct QueueDrops {
  uint64_t packets = 0;
  uint64_t backlog_bytes = 0;
};

class LinkMonitor {
 public:
  static Result<LinkMonitor> create();

  // Readable when changes() has something to tell.
  int fd() const { return events_.get(); }
  // Everything that changed since the last call; a full list when the kernel had to leave some out.
  Result<std::vector<Interface>> changes();
  Result<std::vector<Interface>> interfaces();
  // Of every interface's root queue, by ifindex.
  Result<std::unordered_map<uint32_t, QueueDrops>> queue_drops();

 private:
  // One dump request and its answers, each handed to `each` as (type, payload, length).
  using Message = std::function<void(uint16_t, const void*, size_t)>;
  Status dump(uint16_t type, const void* body, size_t length, const Message& each);

  UniqueFd events_;
  UniqueFd requests_;
  uint32_t sequence_ = 0;
};

}  // namespace orrery::drivers::ebpf
