// How a plan is carried out on sockets: the source port at connect, the release offset at the start of a burst.
#pragma once

#include <sys/socket.h>

#include "agent/preload/flow_table.h"

namespace orrery::preload {

// Which source port makes a connection take the planned path. Pure; separate from the sockets so that it can be tested
// against the hash.
class PortChoice {
 public:
  // `local` and `remote` are what the packets will carry. Ports are tried from a point that `start` selects.
  PortChoice(const orrery_plan_entry& entry, const Endpoint& local, const Endpoint& remote, uint32_t start);

  // The next port that wins every hop, 0 when the range is exhausted (or the entry leaves the port to the kernel, or
  // cannot be hashed).
  uint16_t next();

 private:
  bool wins(uint16_t port) const;

  const orrery_plan_entry& entry_;
  uint32_t local_ = 0, remote_ = 0;
  uint16_t remote_port_;
  uint32_t range_ = 0;  // ports in the range
  uint32_t start_ = 0;
  uint32_t tried_ = 0;
};

// connect() on a TCP socket along the planned path, as far as possible; *entry_index is the plan entry that chose the
// port, else 0xffffffff, and *flow_id its flow. Otherwise exactly connect(). Precondition: attached.
int connect_planned(int fd, const sockaddr* address, socklen_t bytes, const Endpoint& remote, uint16_t ordinal,
                    int (*connect)(int, const sockaddr*, socklen_t), uint32_t* entry_index);

// Whether this send must be answered with EAGAIN, because the flow's time has not come. Called at the start of a burst.
// Precondition: attached.
bool must_hold(Flow& flow, int fd, int flags, uint64_t now);

// Looks the flow up again if the plan table has changed.
void refresh_plan(Flow& flow, uint64_t now);

}  // namespace orrery::preload
