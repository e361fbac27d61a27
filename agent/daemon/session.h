// One attached process as the daemon sees it: its connection, its life, and how often it may ring.
#pragma once

#include <string>

#include "agent/collect/attach_listener.h"
#include "common/base/unique_fd.h"

namespace orrery::daemon {

class Session {
 public:
  // Doorbells a process may ring in one refill period before the agent stops listening to them until the next.
  static constexpr int kDoorbellBudget = 256;

  enum class Ring { kNothing, kRung, kExhausted, kGone };

  Session(uint64_t process, UniqueFd connection, collect::Peer peer);

  // Takes what lies on the connection.
  Ring read_doorbells();
  void refill() { doorbells_left_ = kDoorbellBudget; }

  uint64_t process() const { return process_; }
  int connection() const { return connection_.get(); }
  // Readable when the process has ended, even if a child still holds the connection; -1 when it cannot be watched.
  int pidfd() const { return pidfd_.get(); }
  const collect::Peer& peer() const { return peer_; }
  bool muted = false;  // its doorbells are not watched

 private:
  uint64_t process_;
  UniqueFd connection_;
  UniqueFd pidfd_;
  collect::Peer peer_;
  int doorbells_left_ = kDoorbellBudget;
};

}  // namespace orrery::daemon
