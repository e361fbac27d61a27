// Driver `ebpf`: pins flows to their paths by rules in orrery-switch, live flows included.
//
// States: a committed plan (what the switches have; none at first) and at most one pending plan (sent, not yet
// acknowledged by all). The pending plan becomes the committed one when every switch it touches has accepted it; a
// refusal, a switch that goes away or silence beyond kAnswerTimeoutNs sends every switch back to the committed plan's
// rules, or to none. A switch that connects later or restarts gets the rules of whichever plan is newest. A
// switch that would only steer answers need not be there. Everything
// runs on the controller's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controller/drivers/driver.h"
#include "controller/drivers/ebpf/rule_compiler.h"
#include "controller/drivers/switch_link.h"
#include "controller/fabric/graph.h"

namespace orrery::drivers::ebpf {

inline constexpr uint64_t kAnswerTimeoutNs = 1'000'000'000;

class EbpfDriver final : public Driver, public SwitchEvents {
 public:
  // Both outlive the driver.
  EbpfDriver(const fabric::Graph& fabric, SwitchLink& link) : fabric_(fabric), link_(link) {}

  std::string_view name() const override { return "ebpf"; }
  Capabilities capabilities() const override;
  // kRefused: the path is not one, or a switch that must decide for the flow is not connected.
  Result<HostDirective> direct(const Flow& flow) override;
  void apply(Revision revision, const std::vector<Flow>& flows, uint64_t lease_ns, Completion done) override;
  void renew(Revision revision, uint64_t lease_ns) override;
  void withdraw() override;
  void poll(uint64_t now_ns) override;
  std::optional<fabric::Path> path_of(const FiveTuple& tuple) const override;
  std::optional<std::string> decided_by(fabric::NodeId at, const FiveTuple& tuple) const override;
  SwitchEvents* switch_events() override { return this; }

  void on_switch_connected(const SwitchInfo& info) override;
  void on_switch_gone(std::string_view name) override;
  void on_switch_ack(const SwitchAck& ack) override;

 private:
  struct Plan {
    Revision revision;
    uint64_t lease_ns = 0;
    CompiledPlan compiled;
    std::map<std::string, std::vector<SwitchRule>, std::less<>> rules;  // by switch; an empty list clears what it had
  };
  struct Pending {
    Plan plan;
    Completion done;
    std::set<std::string, std::less<>> waiting;
    uint64_t deadline_ns = 0;  // 0: set by the next poll()
  };
  using RuleKey = std::pair<FiveTuple, FiveTuple>;

  TableLimits limits_of(fabric::NodeId at) const;
  Result<Plan> make_plan(Revision revision, const std::vector<Flow>& flows, uint64_t lease_ns);
  std::vector<SwitchRule> make_rules(const std::vector<CompiledRule>& compiled);
  Status send_pending();
  // Without this switch some flow of the plan would leave its path; else only answers would.
  bool is_needed(const Plan& plan, std::string_view name) const;
  // The committed rules if the switch can be relied on to have them: without its agent their lease ends, unheard.
  const CompiledPlan& rules_at(fabric::NodeId at) const;
  void look_who_is_there();
  void commit();
  void roll_back(const Error& reason);
  void send(const std::string& name, const Plan& plan);
  void finish(Status outcome);

  const fabric::Graph& fabric_;
  SwitchLink& link_;
  std::optional<Plan> committed_;
  std::optional<Pending> pending_;
  std::set<fabric::NodeId> has_agent_;             // switches that are connected
  std::set<std::string, std::less<>> to_refresh_;  // switches that lost the committed rules
  // A match keeps its rule id for as long as some plan has it, so that counters and explanations go on across plans.
  std::map<RuleKey, uint32_t> rule_ids_;
  uint32_t next_rule_id_ = 1;
};

}  // namespace orrery::drivers::ebpf
