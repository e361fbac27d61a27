// A driver whose network answers when the test says so.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "controller/drivers/driver.h"
#include "controller/drivers/switch_link.h"

namespace orrery::test {

class FakeDriver : public drivers::Driver, public drivers::SwitchEvents {
 public:
  struct Applied {
    drivers::Revision revision;
    std::vector<drivers::Flow> flows;
    drivers::Completion done;
  };
  drivers::Capabilities capable{.exact_path = true, .moves_live_flows = true};
  bool answer_at_once = true;
  bool steers_network = true;  // false: switches hash, as under the entropy driver
  std::set<uint64_t> refused_flows;
  std::vector<Applied> applied;
  std::vector<drivers::Revision> renewed;
  int withdrawals = 0;
  int switch_messages = 0;

  std::string_view name() const override { return "fake"; }
  drivers::Capabilities capabilities() const override { return capable; }
  Result<drivers::HostDirective> direct(const drivers::Flow& flow) override {
    if (refused_flows.contains(flow.flow_id)) return Error{ErrorCode::kRefused, "no room"};
    return drivers::HostDirective{};
  }
  void apply(drivers::Revision revision, const std::vector<drivers::Flow>& flows, uint64_t,
             drivers::Completion done) override {
    applied.push_back({revision, flows, answer_at_once ? nullptr : done});
    if (answer_at_once) done({});
  }
  void renew(drivers::Revision revision, uint64_t) override { renewed.push_back(revision); }
  void withdraw() override { ++withdrawals; }
  // Every flow of the last applied plan is on its path; a flow's exact tuple wins over its pair.
  std::optional<fabric::Path> path_of(const FiveTuple& tuple) const override {
    if (applied.empty() || !steers_network) return std::nullopt;
    const drivers::Flow* pair = nullptr;
    for (const drivers::Flow& flow : applied.back().flows) {
      if (flow.tuple.src_port != 0 && flow.tuple == tuple) return flow.path;
      if (flow.tuple.src_port == 0 && flow.src == tuple.src && flow.dst == tuple.dst) pair = &flow;
    }
    if (pair == nullptr) return std::nullopt;
    return pair->path;
  }
  drivers::SwitchEvents* switch_events() override { return this; }
  void on_switch_connected(const drivers::SwitchInfo&) override { ++switch_messages; }
  void on_switch_gone(std::string_view) override { ++switch_messages; }
  void on_switch_ack(const drivers::SwitchAck&) override { ++switch_messages; }
};

}  // namespace orrery::test
