// Parts of plan.capnp that switch.capnp carries too.
#pragma once

#include "common/msg/plan_messages.h"
#include "schemas/plan.capnp.h"

namespace orrery::msg {

Result<Ack> read_ack(wire::Ack::Reader in);
void write_ack(wire::Ack::Builder out, const Ack& in);
Result<Lease> read_lease(wire::Lease::Reader in);
void write_lease(wire::Lease::Builder out, const Lease& in);
// Term and revision from 1, lease 1 ns .. 60 s.
Status check_revision(uint64_t term, uint64_t revision);
Status check_lease(uint64_t lease_ns);

}  // namespace orrery::msg
