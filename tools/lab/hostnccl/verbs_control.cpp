#include "tools/lab/hostnccl/verbs_control.h"

#include <sys/socket.h>

#include <cerrno>

namespace orrery::hostnccl {

bool ControlChannel::flush() {
  while (fd_ && !outgoing_.empty()) {
    const auto* bytes = reinterpret_cast<const char*>(&outgoing_.front());
    const ssize_t sent = ::send(fd_.get(), bytes + sent_, sizeof(ControlFrame) - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == ENOBUFS;
    sent_ += static_cast<size_t>(sent);
    if (sent_ < sizeof(ControlFrame)) continue;
    outgoing_.pop_front();
    sent_ = 0;
  }
  return true;
}

Result<std::optional<ControlFrame>> ControlChannel::receive() {
  for (;;) {
    auto* bytes = reinterpret_cast<char*>(&incoming_);
    const ssize_t got = ::recv(fd_.get(), bytes + have_, sizeof incoming_ - have_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::optional<ControlFrame>();
    if (got < 0) return Error{ErrorCode::kUnavailable, system_error("recv", errno).message};
    if (got == 0) return Error{ErrorCode::kUnavailable, "it closed the connection"};
    have_ += static_cast<size_t>(got);
    if (have_ < sizeof incoming_) continue;
    have_ = 0;
    if (incoming_.magic != kControlMagic || incoming_.queue_pairs > kMaxQueuePairs) {
      return Error{ErrorCode::kCorrupt, "it sent something that is no verbs connection of hostnccl"};
    }
    return std::optional(incoming_);
  }
}

}  // namespace orrery::hostnccl
