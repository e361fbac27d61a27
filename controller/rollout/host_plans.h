// From a plan's flows to what each host is told. Pure but for asking the driver for its directives.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/msg/plan_messages.h"
#include "controller/drivers/driver.h"
#include "controller/fabric/graph.h"

namespace orrery::rollout {

struct HostPlans {
  std::vector<drivers::Flow> accepted;                        // flows the driver can carry out, in order
  std::map<uint64_t, std::string> refused;                    // flow id -> why it stays unmanaged
  std::map<std::string, std::vector<msg::FlowPlan>> by_host;  // sending host -> its flows
};

// A flow whose address is no host's, whose path is empty or that the driver refuses is left out with the reason.
HostPlans make_host_plans(const fabric::Graph& fabric, drivers::Driver& driver,
                          const std::vector<drivers::Flow>& flows);

}  // namespace orrery::rollout
