// How a plan is carried out on sockets: the source port at connect, the release offset at the start of a burst.
#pragma once

#include <sys/socket.h>

#include "agent/preload/endpoint.h"
#include "agent/preload/flow_table.h"

namespace orrery::preload {

struct Planned {
  uint32_t entry_index = 0xffffffffu;  // of the plan entry that chose the port
  bool paced = false;                  // the socket has the plan's pace
};
// connect() on a TCP socket along the planned path, as far as possible. Otherwise exactly connect(). Precondition:
// attached.
int connect_planned(int fd, const sockaddr* address, socklen_t bytes, const Endpoint& remote, uint16_t ordinal,
                    int (*connect)(int, const sockaddr*, socklen_t), Planned* planned);

// Takes the plan's pace off the socket, because the plan is no longer valid. Keeps errno.
void lift_pace(Flow& flow, int fd);

// In a forked child, which follows none of its parent's connections: takes all paces off. Only system calls.
void lift_all_paces_in_child();
void note_paced();

// The decision behind every hold for a release offset, of sockets and of queue pairs. Start of the collective that a
// burst beginning now has to wait for, 0 when it may go: there is no offset, it has passed, or the flow was held for
// this collective before. Precondition: attached.
uint64_t release_waits_for(uint64_t comm_id, const Comm** comm, uint64_t offset_ns, const ReleaseHold& hold,
                           uint64_t now);
// Holds the burst for the collective that began at `start_ns`. Until when: its release, but never longer than the cap.
uint64_t hold_for(ReleaseHold& hold, uint64_t start_ns, uint64_t offset_ns, uint64_t now);

// Whether this send must be answered with EAGAIN, because the flow's time has not come. Called at the start of a burst.
// Precondition: attached.
bool must_hold(Flow& flow, int fd, int flags, uint64_t now);

// Looks the flow up again if the plan table has changed.
void refresh_plan(Flow& flow, uint64_t now);

}  // namespace orrery::preload
