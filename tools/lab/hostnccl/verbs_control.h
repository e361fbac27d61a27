// The TCP connection beside a verbs connection: how both ends exchange queue pair numbers, and how each learns that the
// other has left or died. It stays open as long as the queue pairs. Non-blocking; proxy thread only.
#pragma once

#include <deque>
#include <optional>

#include "tools/lab/hostnccl/socket.h"
#include "tools/lab/hostnccl/verbs_plan.h"

namespace orrery::hostnccl {

inline constexpr size_t kMaxQueuePairs = 128;

enum class ControlType : uint16_t {
  kInfo = 1,  // sender first, then receiver
  kReady,     // the sender's queue pairs may receive
  kGoodbye,   // left in good order: everything that was posted has arrived
};

// Everything that crosses the connection, always of this size. Host byte order, like all of hostnccl.
struct ControlFrame {
  uint32_t magic = 0;
  ControlType type = ControlType::kInfo;
  uint16_t kind = 0;  // of the stream, as the next three
  uint16_t channel = 0;
  uint16_t queue_pairs = 0;
  uint32_t from_rank = 0;
  uint64_t communicator_id = 0;
  Gid gid{};
  uint16_t lid = 0;
  uint8_t mtu = 0;  // ibv_mtu
  uint8_t has_options = 0;
  uint32_t options[3] = {};    // ibv_ece
  uint64_t slots_address = 0;  // sender: CtsSlot[kRequests][kMaxGroup]; receiver: uint32_t[kRequests][kMaxGroup] sizes
  uint32_t slots_key = 0;
  uint32_t reserved = 0;
  uint32_t numbers[kMaxQueuePairs] = {};
};
static_assert(sizeof(ControlFrame) == 584);
inline constexpr uint32_t kControlMagic = 0x4f485642u;

class ControlChannel {
 public:
  ControlChannel() = default;
  explicit ControlChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool is_open() const { return static_cast<bool>(fd_); }
  bool wants_to_write() const { return !outgoing_.empty(); }
  void send(const ControlFrame& frame) { outgoing_.push_back(frame); }

  // Writes what can be written. False when the connection is broken.
  bool flush();
  // The next whole frame, if it is there. An error: the connection ended, or carries something else.
  Result<std::optional<ControlFrame>> receive();

 private:
  UniqueFd fd_;
  std::deque<ControlFrame> outgoing_;
  size_t sent_ = 0;  // of the first one
  ControlFrame incoming_;
  size_t have_ = 0;
};

}  // namespace orrery::hostnccl
