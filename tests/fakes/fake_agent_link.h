// Agents as rollout sees them: remembers what was sent, connects whom the test says.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/rollout/agent_link.h"

namespace orrery::test {

class FakeAgentLink : public rollout::AgentLink {
 public:
  std::vector<std::string> connected;
  std::set<std::string> full;  // connected, but takes no plan
  std::vector<std::pair<std::string, msg::HostPlan>> plans;
  std::vector<std::pair<std::string, drivers::Revision>> leases, withdrawn;

  Status send_plan(std::string_view host, const msg::HostPlan& plan) override {
    ORRERY_TRY(check(host));
    if (full.contains(std::string(host))) return Error{ErrorCode::kUnavailable, "the peer's queue is full"};
    plans.emplace_back(host, plan);
    return {};
  }
  Status send_lease(std::string_view host, drivers::Revision revision, uint64_t) override {
    ORRERY_TRY(check(host));
    leases.emplace_back(host, revision);
    return {};
  }
  Status send_withdraw(std::string_view host, drivers::Revision revision) override {
    ORRERY_TRY(check(host));
    withdrawn.emplace_back(host, revision);
    return {};
  }
  std::vector<std::string> connected_agents() const override { return connected; }

  // The plan sent last to `host`; an empty one (revision 0) when none was.
  msg::HostPlan last_plan(const std::string& host) const {
    for (auto sent = plans.rbegin(); sent != plans.rend(); ++sent)
      if (sent->first == host) return sent->second;
    return {};
  }

 private:
  Status check(std::string_view host) const {
    if (std::find(connected.begin(), connected.end(), host) != connected.end()) return {};
    return Error{ErrorCode::kNotFound, "not connected"};
  }
};

}  // namespace orrery::test
