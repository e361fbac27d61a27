// Carries a plan to network and hosts, as a whole. Belongs to the controller's thread; nothing blocks.
//
// One revision is in flight at a time:
//   idle -> network: driver.apply() -> hosts: HostPlans sent, acknowledgements counted -> committed, idle
// A plan that arrives meanwhile waits for the driver, but not for hosts: they get the newer one. Refusal, or silence of
// a connected agent, brings the previous plan back under a new revision; if that fails too, everything is withdrawn and
// the fabric is unmanaged. An agent that was silent once is no longer waited for until it acknowledges something; one
// that goes away is not waited for at all.
//
// Revisions count up within the term and are never used twice, so that a receiver can refuse what is older than what it
// has.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/telemetry/metrics.h"
#include "controller/drivers/driver.h"
#include "controller/fabric/graph.h"
#include "controller/rollout/agent_link.h"
#include "controller/rollout/host_plans.h"

namespace orrery::rollout {

struct Options {
  uint64_t lease_ns = 3'000'000'000;
  uint64_t renew_ns = 1'000'000'000;
  uint64_t host_timeout_ns = 1'000'000'000;     // from sending a plan to its acknowledgement
  uint64_t network_timeout_ns = 3'000'000'000;  // guard over the driver's own timeouts
};

// End of one revision's way.
struct Outcome {
  drivers::Revision revision;
  bool committed = false;
  bool rollback = false;  // the revision was the return of an older plan
  std::string reason;     // when not committed
};

struct HostStatus {
  drivers::Revision sent;
  drivers::Revision acknowledged;
  uint32_t entries = 0;    // in force at the agent
  bool has_flows = false;  // in the plan sent last
  bool silent = false;     // let a plan time out and has acknowledged nothing since
  std::string refusal;     // of the newest plan; "" when accepted
};

class Rollout {
 public:
  Rollout(const fabric::Graph& fabric, drivers::Driver& driver, AgentLink& agents, telemetry::Metrics& metrics,
          Options options, uint64_t term);

  // Times are CLOCK_MONOTONIC. Returns the revision the plan got.
  drivers::Revision start(const std::vector<drivers::Flow>& flows, uint64_t now_ns);
  void on_agent_connected(const std::string& host, uint64_t now_ns);
  void on_agent_gone(const std::string& host, uint64_t now_ns);
  void on_ack(const msg::Ack& ack, uint64_t now_ns);
  // Timeouts and lease renewal; call at least every 100 ms.
  void poll(uint64_t now_ns);
  // Back to unmanaged mode, at once.
  void withdraw();

  // The newest revision network and hosts were told, or none (number 0).
  drivers::Revision revision() const { return {term_, newest_}; }
  bool settled() const { return phase_ == Phase::kIdle; }
  // Hosts have not been told the newest plan yet.
  bool in_network() const { return phase_ == Phase::kNetwork; }
  uint64_t term() const { return term_; }
  const std::map<std::string, HostStatus>& hosts() const { return hosts_; }
  // Why the driver cannot carry out a flow of the newest plan; null: it can.
  const std::string* refusal(uint64_t flow_id) const;
  // Whether every host and element concerned has the plan with this flow.
  bool acknowledged(uint64_t flow_id) const;
  // What ended since the last call.
  std::vector<Outcome> take_outcomes() { return std::exchange(outcomes_, {}); }

 private:
  enum class Phase { kIdle, kNetwork, kHosts };
  struct Candidate {
    drivers::Revision revision;
    HostPlans plans;
    std::unordered_set<uint64_t> accepted_ids;
    bool rollback = false;
  };

  drivers::Revision next_revision() { return {term_, ++newest_}; }
  void begin(std::shared_ptr<const Candidate> candidate, uint64_t now_ns);
  void on_network(uint64_t generation, const Status& status);
  void tell_hosts(uint64_t now_ns);
  bool send_plan(const std::string& host, const Candidate& candidate);
  void stop_waiting_for(const std::string& host);
  void commit();
  void fail(const std::string& reason, uint64_t now_ns);
  void renew(uint64_t now_ns);
  // The plan in force concerns the host and could not be sent to it: what it has must not live on beside the plan.
  bool lacks_plan(const std::string& host, const HostStatus& status) const;
  const Candidate* told() const;

  const fabric::Graph& fabric_;
  drivers::Driver& driver_;
  AgentLink& agents_;
  const Options options_;
  const uint64_t term_;
  uint64_t newest_ = 0;

  Phase phase_ = Phase::kIdle;
  uint64_t generation_ = 0;  // of apply() calls: a late answer to an older one is ignored
  uint64_t deadline_ns_ = 0;
  uint64_t renewed_ns_ = 0;
  uint64_t now_ns_ = 0;        // of the call being served, for completions that arrive within it
  drivers::Revision network_;  // what the driver made true last
  std::shared_ptr<const Candidate> in_flight_, waiting_, committed_;
  std::set<std::string> unanswered_;
  std::map<std::string, HostStatus> hosts_;
  std::vector<Outcome> outcomes_;

  telemetry::Counter& acks_;
  telemetry::Counter& refusals_;
  telemetry::Counter& rollbacks_;
  telemetry::Counter& committed_plans_;
};

}  // namespace orrery::rollout
