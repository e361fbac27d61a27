#include "agent/daemon/session.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>

namespace orrery::daemon {

Session::Session(uint64_t process, UniqueFd connection, collect::Peer peer)
    : process_(process), connection_(std::move(connection)), peer_(std::move(peer)) {
  if (peer_.pid > 0) pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, peer_.pid, 0)));
}

Session::Ring Session::read_doorbells() {
  Ring result = Ring::kNothing;
  char byte;
  while (doorbells_left_ > 0) {
    const ssize_t got = recv(connection_.get(), &byte, sizeof byte, MSG_DONTWAIT);
    if (got == 0) return Ring::kGone;
    if (got < 0) return errno == EAGAIN || errno == EINTR ? result : Ring::kGone;
    --doorbells_left_;
    result = Ring::kRung;
  }
  return Ring::kExhausted;
}

}  // namespace orrery::daemon
