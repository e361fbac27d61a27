// What the ring and point-to-point engines need from a network: ordered streams of transfers between two ranks, moved
// by one proxy thread. TCP (transport_tcp.h) and RDMA (transport_verbs.h) implement it; all calls come from the proxy
// thread that owns the transport.
#pragma once

#include <poll.h>

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace orrery::hostnccl {

enum class StreamKind : uint16_t { kRing = 1, kPointToPoint = 2 };

// One direction of traffic with `peer`.
struct StreamKey {
  int peer = 0;
  StreamKind kind = StreamKind::kRing;
  int channel = 0;
  auto operator<=>(const StreamKey&) const = default;
};

// A piece of memory to send or to fill. Owned by the caller, at a fixed address until done(); both ends post the same
// sizes in the same order.
struct Transfer {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  size_t left = 0;  // set by post(), counted down by the transport
  bool done() const { return left == 0; }
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void post(Transfer& transfer) = 0;
  // Two that both ends post together: they may travel as one message.
  virtual void post(Transfer& first, Transfer& second) = 0;
  // Set once the peer cannot be reached any more; what was posted then never completes.
  virtual const std::optional<Error>& error() const = 0;
  virtual std::string peer_text() const = 0;  // "rank 3 (10.0.0.4:41234)"
};

// Memory that a transport keeps ready for transfers until this is destroyed.
class MemoryHold {
 public:
  virtual ~MemoryHold() = default;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // For memory of which many transfers will be posted: what it costs to use is paid once. `written`: some of them
  // receive. Null when there is nothing to keep. The memory outlives the hold, the hold does not outlive the transport.
  virtual std::unique_ptr<MemoryHold> hold(const void*, size_t, bool /*written*/) { return nullptr; }
  // Opened by the first call for a key; the stream lives as long as the transport. The sender connects, the receiver is
  // connected to.
  virtual Stream& sender(const StreamKey& key) = 0;
  virtual Stream& receiver(const StreamKey& key) = 0;
  // Sleeps until something can move, `extra` (in: events, out: revents) has an event, or `max_wait` passes; moves what
  // can be moved. Returns the bytes moved.
  virtual Result<size_t> step(std::vector<pollfd>& extra, std::chrono::nanoseconds max_wait) = 0;
  // The peer of the first stream that failed.
  virtual std::optional<int> lost_peer() const = 0;
  // All that was posted is done and nothing more will be: peers may forget this end without an error.
  virtual void leave() {}
  // Gives up at once: no memory of a transfer is touched any more. No other call follows but the destructor.
  virtual void halt() {}
};

}  // namespace orrery::hostnccl
