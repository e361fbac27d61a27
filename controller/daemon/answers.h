// Answers orreryctl's questions from the core's books. Made for one question; changes nothing but caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/msg/control_messages.h"
#include "controller/daemon/core.h"

namespace orrery::daemon {

class Answers {
 public:
  Answers(Core& core, uint64_t now_ns) : core_(core), now_ns_(now_ns) {}
  msg::Response answer(const msg::Request& request);

 private:
  msg::PlanList plan_list();
  msg::FlowList flow_list();
  msg::Response explain(uint64_t flow_id);
  std::vector<msg::LinkState> links() const;
  std::vector<msg::JobState> jobs() const;
  std::vector<msg::HostState> hosts() const;
  std::vector<msg::SwitchState> switches() const;
  std::vector<msg::ForecastState> forecasts() const;
  msg::Health health() const;

  msg::PlannedFlow planned_flow(size_t index);
  msg::LiveFlow live_flow(LiveFlow& flow);
  std::vector<LiveFlow*> live_flows(size_t index);
  void add_times(size_t index, std::vector<std::string>& reasons) const;
  void add_doubts(size_t index, std::vector<std::string>& reasons);
  std::vector<msg::HopExplanation> hops(const fabric::Path& path, const FiveTuple& tuple) const;
  std::string decided_by(fabric::LinkId link, const FiveTuple& tuple, std::vector<std::string>& alternatives) const;
  std::string host_of(const IpAddress& address) const;
  msg::PlanBounds bounds() const;
  uint64_t planned_bytes(fabric::LinkId link) const;

  void add_peer_problems(std::vector<std::string>& problems) const;
  void add_plan_problems(std::vector<std::string>& problems) const;
  void add_fabric_problems(std::vector<std::string>& problems) const;
  void add_host_problems(std::vector<std::string>& problems) const;
  void add_job_problems(std::vector<std::string>& problems) const;

  Core& core_;
  const uint64_t now_ns_;
};

}  // namespace orrery::daemon
