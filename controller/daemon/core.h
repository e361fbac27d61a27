// The controller's mind, without sockets: takes what the api hands over, keeps the books, decides when to plan, has the
// planner plan and rollout carry it out, and judges what came of it. Belongs to the controller's thread; time comes in
// with every call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/telemetry/metrics.h"
#include "controller/api/receiver.h"
#include "controller/daemon/communicators.h"
#include "controller/daemon/demands.h"
#include "controller/daemon/expectations.h"
#include "controller/daemon/flows.h"
#include "controller/daemon/hosts.h"
#include "controller/daemon/links.h"
#include "controller/daemon/turns.h"
#include "controller/drivers/driver.h"
#include "controller/drivers/switch_link.h"
#include "controller/forecast/forecaster.h"
#include "controller/planner/plan_cache.h"
#include "controller/planner/planner.h"
#include "controller/rollout/rollout.h"
#include "controller/state/saved_state.h"

namespace orrery::daemon {

struct CoreOptions {
  std::string version;
  planner::Options planner;
  rollout::Options rollout;
  uint64_t coalesce_ns = 50'000'000;  // changes of bytes wait for others this long
  uint64_t retry_ns = 5'000'000'000;  // after a plan that had to be taken back
  bool turns = false;                 // jobs that share links are moved apart in time
  uint64_t hold_cap_ns = 1'000'000;   // no flow is held back for longer, as agents would not
};

// What the core needs from outside; all of it outlives the core.
struct CoreParts {
  fabric::Graph& fabric;
  drivers::Driver& driver;
  rollout::AgentLink& agents;
  telemetry::Metrics& metrics;
  uint64_t term = 1;
  std::function<void(state::SavedState)> save;                         // may be empty
  std::function<std::vector<std::string>(uint64_t)> outside_problems;  // may be empty; gets CLOCK_MONOTONIC
};

struct SwitchRecord {
  bool connected = false;
  uint64_t last_seen_tai_ns = 0;
  uint32_t table_size = 0;
  uint64_t rule_revision = 0;  // acknowledged
  uint32_t rules = 0;
  std::string refusal;
};

class Core : public api::Receiver {
 public:
  Core(CoreParts parts, CoreOptions options, uint64_t now_ns);

  // What a simulation predicted; at any time, best before restore().
  void expect(NicPrediction prediction) { expectations_.take(std::move(prediction)); }

  // Brings back what the last run saved; call before anything but expect(). The plan goes out at once, under this run's
  // term.
  void restore(const state::SavedState& saved, uint64_t now_ns);

  void on_window(const msg::IntentWindow& window, uint64_t now_ns) override;
  void on_agent_connected(const msg::AgentHello& hello, uint64_t now_ns) override;
  void on_agent_hello(const msg::AgentHello& hello, uint64_t now_ns) override;
  void on_agent_gone(const std::string& host, uint64_t now_ns) override;
  void on_agent_ack(const msg::Ack& ack, uint64_t now_ns) override;
  void on_switch_connected(const msg::SwitchHello& hello, uint64_t now_ns) override;
  void on_switch_hello(const msg::SwitchHello& hello, uint64_t now_ns) override;
  void on_switch_gone(const std::string& name, uint64_t now_ns) override;
  void on_switch_ack(const msg::Ack& ack, uint64_t now_ns) override;
  void on_telemetry(const msg::SwitchTelemetry& telemetry, uint64_t now_ns) override;
  msg::Response answer(const msg::Request& request, uint64_t now_ns) override;

  // Plans if it is time, renews, expires; call after each batch of messages and at least every 50 ms.
  void step(uint64_t now_ns);
  // Milliseconds until step() has something to do, at most `limit`.
  int wait_ms(uint64_t now_ns, int limit) const;
  // Everybody back to unmanaged mode: before the end of the program.
  void withdraw() { rollout_.withdraw(); }

 private:
  friend class Answers;
  struct PlanInForce {  // the newest plan made, whether rolled out yet or not
    Demands demands;
    std::shared_ptr<const planner::Plan> plan;
    std::map<uint64_t, size_t> index;  // flow id -> position
    std::map<DemandKey, size_t> index_by_key;
    std::vector<uint32_t> flows_on_link;  // by LinkId
    uint64_t planned_at_tai_ns = 0;
    uint64_t planning_ns = 0;
  };

  void want_plan(uint64_t due_ns);
  void want(Change change, uint64_t now_ns);
  void observe(const msg::Intent& intent, const Observation& observation);
  bool took_planned_paths(uint64_t comm_id, const std::vector<AddressPair>& pairs);
  const fabric::Path* planned_path(const DemandKey& key) const;
  std::optional<fabric::Path> path_of(LiveFlow& flow);
  void plan(uint64_t now_ns);
  // Marks the flows that are fixed elsewhere than the plan in force sent them.
  void find_adopted(Demands& demands) const;
  void adopt(Demands demands, std::shared_ptr<const planner::Plan> plan, uint64_t planning_ns);
  std::vector<drivers::Flow> flows_to_roll_out() const;
  void roll_out(uint64_t now_ns);
  void look_at_rounds(uint64_t now_ns);
  void look_at_turns(uint64_t now_ns);
  // Of a flow of the plan in force: its stagger, and what its job waits for others.
  uint64_t release_offset_ns(size_t index) const;
  bool is_usable(const fabric::Path& path) const;
  bool may_move(LiveFlow& flow, uint64_t now_ns);
  bool speaks_roce(const IpAddress& address) const;
  void settle(uint64_t now_ns);
  void expire(uint64_t now_ns);
  void save(uint64_t now_ns);

  fabric::Graph& fabric_;
  drivers::Driver& driver_;
  const CoreOptions options_;
  const std::function<void(state::SavedState)> save_;
  const std::function<std::vector<std::string>(uint64_t)> outside_problems_;
  const uint64_t started_tai_ns_;

  HostBook hosts_;
  CommunicatorBook communicators_;
  FlowBook flows_;
  LinkBook links_;
  Expectations expectations_;
  std::map<std::string, SwitchRecord, std::less<>> switches_;
  forecast::Forecaster forecaster_;
  planner::PlanCache cache_;
  FlowIds flow_ids_;
  rollout::Rollout rollout_;
  Turns turns_;

  PlanInForce in_force_;
  std::vector<drivers::Flow> rolled_out_;  // what rollout was given last
  std::vector<drivers::Flow> failed_;      // what was taken back last, not to be tried again before retry_ns_
  uint64_t retry_ns_ = 0;
  uint64_t rolled_out_ns_ = 0;
  std::string planning_problem_;  // of the last attempt; "" when it worked
  std::string rollout_problem_;   // why the last plan was taken back; "" when it stands
  uint64_t plan_due_ns_ = UINT64_MAX;
  uint64_t announced_ns_ = 0;  // when the newest communicator became complete; 0: its plan is out
  uint64_t expired_ns_ = 0;
  uint64_t rounds_due_ns_ = 0;
  uint64_t path_epoch_ = 1;  // counts link states and rules
  uint64_t saved_ns_ = 0;
  uint64_t saved_version_ = 0;
  uint64_t plan_hits_ = 0;
  uint64_t plan_misses_ = 0;

  telemetry::Counter& windows_received_;
  telemetry::Counter& windows_lost_;
  telemetry::Counter& forecast_hits_;
  telemetry::Counter& forecast_misses_;
  telemetry::Counter& hits_metric_;
  telemetry::Counter& misses_metric_;
  telemetry::Counter& moves_metric_;
  telemetry::Histogram& planning_seconds_;
  telemetry::Histogram& announcement_seconds_;
  telemetry::Gauge& planned_flows_;
};

}  // namespace orrery::daemon
