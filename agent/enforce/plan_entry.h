// One flow of a HostPlan, checked, as the entry a process reads in its plan table.
#pragma once

#include <functional>

#include "common/abi/plan_abi.h"
#include "common/msg/plan_messages.h"

namespace orrery::enforce {

// RoCEv2 takes its UDP source ports from here to 65535 (IANA's dynamic ports).
inline constexpr uint16_t kFirstRocePort = 49152;
// A pace below this would starve a training job; a plan that asks for it is wrong.
inline constexpr uint64_t kMinPaceBps = 1'000'000;

// Errors: kRefused, naming the flow and the field: the controller must not have sent it. `is_local` tells the host's
// own addresses.
Result<orrery_plan_entry> make_entry(const msg::FlowPlan& flow, const std::function<bool(const IpAddress&)>& is_local);

}  // namespace orrery::enforce
