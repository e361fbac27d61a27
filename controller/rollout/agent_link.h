// How rollout reaches the agents: the api implements it over its socket. Sending never blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/msg/plan_messages.h"
#include "controller/drivers/driver.h"

namespace orrery::rollout {

class AgentLink {
 public:
  virtual ~AgentLink() = default;
  // Errors: kNotFound, no agent of that host is connected; kUnavailable, its queue is full; kExhausted, the plan is too
  // long for a message.
  virtual Status send_plan(std::string_view host, const msg::HostPlan& plan) = 0;
  virtual Status send_lease(std::string_view host, drivers::Revision revision, uint64_t lease_ns) = 0;
  virtual Status send_withdraw(std::string_view host, drivers::Revision revision) = 0;
  virtual std::vector<std::string> connected_agents() const = 0;
};

}  // namespace orrery::rollout
