// Which way a queue pair goes: what is known when it is made ready to receive, and the source port (by way of the flow
// label) and traffic class that the plan wants for it. Control path.
#pragma once

#include "agent/preload/qp_table.h"

namespace orrery::preload {

// The path as the program asks for it. False when the queue pair will not send RoCEv2 packets to one peer: then there
// is no flow. `modify` leads to the copy of libibverbs to ask. Keeps errno.
bool describe_path(Qp& qp, ibv_context* context, const ibv_qp_attr& attributes, ModifyQp modify, QpPath* path);

// Changes `path` to what the plan wants. False when it wants nothing, or the queue pair is one that is left alone.
// Precondition: attached.
bool plan_path(const Qp& qp, QpPath* path);

}  // namespace orrery::preload
