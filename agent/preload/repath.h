// Moving a live queue pair to another UDP source port, where its provider can: mlx5 by its own function, soft-RoCE by
// way of SQD (facts 5.4).
//
// On soft-RoCE the send queue must be empty: in SQD the driver drops packets of requests that are under way, and cannot
// leave SQD before they are done. The responder is not touched: packets of the peer are answered throughout.
#pragma once

#include "agent/preload/qp_table.h"

namespace orrery::preload {

// Whether the provider of this queue pair has a way. For what is made ready from now on.
bool can_be_moved(const Qp& qp);

enum class Moved {
  kDone,    // packets leave from the new port from now on
  kNotNow,  // its send queue is in use, or may be; nothing has changed
  kNever,   // the provider refuses; the queue pair is as it was
};
// `port` is of [0xc000, 0xffff]. A few system calls; nobody else posts to the queue pair meanwhile, and the caller's
// next step is a post (soft-RoCE looks at its queue again only then). Fills in the path and tells the agent when done.
// Keeps errno. Precondition: attached, and the queue pair sends (RTS).
Moved move_qp(Qp& qp, uint16_t port);

// Soft-RoCE raises IBV_EVENT_SQ_DRAINED for a move. True when this event is such a one.
bool take_drained_event(Qp& qp);
// Acknowledges an event by the function of the copy of libibverbs that `get` is part of. Keeps errno.
void acknowledge_beside(int (*get)(ibv_context*, ibv_async_event*), ibv_async_event* event);

}  // namespace orrery::preload
