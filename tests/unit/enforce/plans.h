// Plans for the tests of agent/enforce.
#pragma once

#include "common/msg/plan_messages.h"

namespace orrery::test {

inline bool is_h1(const IpAddress& address) {
  return address == IpAddress::parse("10.0.0.1").value();
}

inline msg::FlowPlan flow_plan(uint64_t flow_id, uint64_t comm_id, const char* dst = "10.0.0.2") {
  msg::FlowPlan flow;
  flow.flow_id = flow_id;
  flow.comm_id = comm_id;
  flow.src = IpAddress::parse("10.0.0.1").value();
  flow.dst = IpAddress::parse(dst).value();
  return flow;
}

inline msg::HostPlan host_plan(uint64_t term, uint64_t revision, std::vector<msg::FlowPlan> flows) {
  return {.host = "h1", .term = term, .revision = revision, .lease_ns = 3'000'000'000, .flows = std::move(flows)};
}

}  // namespace orrery::test
