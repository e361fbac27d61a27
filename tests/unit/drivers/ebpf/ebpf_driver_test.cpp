#include "controller/drivers/ebpf/ebpf_driver.h"

#include <catch2/catch.hpp>

#include "controller/fabric/topology.h"

namespace orrery::drivers::ebpf {
namespace {

constexpr uint64_t kLease = 3'000'000'000;

class FakeLink final : public SwitchLink {
 public:
  struct Sent {
    std::string name;
    Revision revision;
    std::vector<SwitchRule> rules;
  };
  Status send_rules(std::string_view name, const SwitchRuleSet& rules) override {
    if (away.contains(std::string(name))) return Error{ErrorCode::kNotFound, "not connected"};
    sent.push_back({std::string(name), rules.revision, rules.rules});
    return {};
  }
  Status send_lease(std::string_view name, Revision revision, uint64_t) override {
    if (away.contains(std::string(name))) return Error{ErrorCode::kNotFound, "not connected"};
    leases.push_back({std::string(name), revision, {}});
    return {};
  }
  Status send_withdraw(std::string_view name, Revision revision) override {
    withdrawn.push_back({std::string(name), revision, {}});
    return {};
  }
  std::vector<SwitchInfo> connected() const override {
    std::vector<SwitchInfo> infos;
    for (const std::string name : {"leaf1", "leaf2", "leaf3", "leaf4"})
      if (!away.contains(name)) infos.push_back({.name = name, .table_size = table_size, .mask_limit = 8});
    return infos;
  }
  std::vector<Sent> take() { return std::exchange(sent, {}); }

  std::set<std::string> away;
  uint32_t table_size = 1000;
  std::vector<Sent> sent, leases, withdrawn;
};

struct Setup {
  fabric::Graph graph = fabric::Graph::build(fabric::generate_leaf_spine({}).value());
  FakeLink link;
  EbpfDriver driver{graph, link};
  std::vector<Status> outcomes;

  Flow flow(std::string_view src, std::string_view dst, size_t spine) const {
    const fabric::Nic *from = nullptr, *to = nullptr;
    for (const auto& nic : graph.nics()) {
      if (graph.node(nic.host).name == src) from = &nic;
      if (graph.node(nic.host).name == dst) to = &nic;
    }
    Flow flow{.flow_id = 1, .src = from->address, .dst = to->address};
    flow.tuple = {flow.src, flow.dst, 0, 0, 6};
    const auto paths = graph.paths(*from, *to);
    flow.path = paths[spine];
    flow.backups = {paths[(spine + 1) % paths.size()]};
    return flow;
  }
  void apply(uint64_t number, const std::vector<Flow>& flows) {
    driver.apply({1, number}, flows, kLease, [this](Status status) { outcomes.push_back(std::move(status)); });
  }
  void ack(const std::string& name, uint64_t number, bool accepted = true) {
    driver.on_switch_ack({name, {1, number}, accepted, accepted ? "" : "no room"});
  }
  // Applies and acknowledges everything.
  void commit(uint64_t number, const std::vector<Flow>& flows) {
    apply(number, flows);
    for (const auto& sent : link.take()) ack(sent.name, number);
    REQUIRE(outcomes.back().has_value());
  }
};

FiveTuple connection(const Flow& flow) {
  return {flow.src, flow.dst, 1234, 80, 6};
}

}  // namespace

TEST_CASE("a plan is done when every switch it touches has acknowledged it") {
  Setup s;
  s.apply(1, {s.flow("h1", "h5", 0)});
  const auto sent = s.link.take();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].name == "leaf1");
  CHECK(sent[0].rules[0].egress_port == "p5");
  CHECK(sent[0].rules[0].backup_port == "p6");
  CHECK(sent[1].name == "leaf2");
  s.ack("leaf1", 1);
  s.ack("leaf1", 1);
  s.ack("leaf3", 1);
  s.ack("leaf2", 99);
  CHECK(s.outcomes.empty());
  s.ack("leaf2", 1);
  REQUIRE(s.outcomes.size() == 1);
  CHECK(s.outcomes[0].has_value());
}

TEST_CASE("a plan without rules is done at once") {
  Setup s;
  s.apply(1, {});
  REQUIRE(s.outcomes.size() == 1);
  CHECK(s.outcomes[0].has_value());
}

TEST_CASE("one refusal takes every switch back to the rules before") {
  Setup s;
  s.commit(1, {s.flow("h1", "h5", 0)});
  s.apply(2, {s.flow("h1", "h5", 2), s.flow("h1", "h9", 1)});
  CHECK(s.link.take().size() == 3);
  s.ack("leaf1", 2);
  s.ack("leaf3", 2, false);
  REQUIRE(s.outcomes.size() == 2);
  CHECK(s.outcomes[1].error().code == ErrorCode::kRefused);
  CHECK(s.outcomes[1].error().message == "switch leaf3: no room");
  const auto back = s.link.take();
  REQUIRE(back.size() == 2);
  for (const auto& sent : back) {
    CHECK(sent.revision == Revision{1, 1});
    CHECK(sent.rules[0].egress_port == "p5");
  }
  REQUIRE(s.link.withdrawn.size() == 1);
  CHECK(s.link.withdrawn[0].name == "leaf3");
  CHECK(s.driver.path_of(connection(s.flow("h1", "h5", 0))) == s.flow("h1", "h5", 0).path);
}

TEST_CASE("silence ends as a refusal, after the time-out and once") {
  Setup s;
  s.apply(1, {s.flow("h1", "h5", 0)});
  s.ack("leaf1", 1);
  s.driver.poll(1000);
  s.driver.poll(1000 + kAnswerTimeoutNs - 1);
  CHECK(s.outcomes.empty());
  s.driver.poll(1000 + kAnswerTimeoutNs);
  s.driver.poll(1000 + 2 * kAnswerTimeoutNs);
  REQUIRE(s.outcomes.size() == 1);
  CHECK(s.outcomes[0].error().message.find("no answer from switch leaf2") == 0);
  CHECK(s.link.withdrawn.size() == 2);
  s.ack("leaf2", 1);  // too late
  CHECK(s.outcomes.size() == 1);
}

TEST_CASE("a switch that goes away before it answers takes the plan back") {
  Setup s;
  s.apply(1, {s.flow("h1", "h5", 0)});
  s.driver.on_switch_gone("leaf4");
  CHECK(s.outcomes.empty());
  s.driver.on_switch_gone("leaf2");
  REQUIRE(s.outcomes.size() == 1);
  CHECK(!s.outcomes[0]);
}

TEST_CASE("a plan that needs a switch which is not connected fails, and says which") {
  Setup s;
  s.link.away = {"leaf1"};
  s.apply(1, {s.flow("h1", "h5", 0)});
  REQUIRE(s.outcomes.size() == 1);
  CHECK(s.outcomes[0].error().message == "switch leaf1 cannot be given its rules: not connected");
  s.link.away = {"leaf2"};
  CHECK(s.driver.direct(s.flow("h1", "h9", 0)));
  CHECK(s.driver.direct(s.flow("h5", "h1", 0)).error().code == ErrorCode::kRefused);
}

TEST_CASE("a switch that would only steer answers may be absent, and gets its rules when it comes") {
  Setup s;
  s.link.away = {"leaf2"};
  s.apply(1, {s.flow("h1", "h5", 0)});
  CHECK(s.link.take().size() == 1);
  s.ack("leaf1", 1);
  REQUIRE(s.outcomes.size() == 1);
  CHECK(s.outcomes[0].has_value());
  s.link.away.clear();
  s.driver.on_switch_connected({.name = "leaf2"});
  const auto sent = s.link.take();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].name == "leaf2");
  s.link.away = {"leaf2"};
  s.apply(2, {s.flow("h1", "h5", 0), s.flow("h5", "h1", 1)});
  CHECK(!s.outcomes.back());
}

TEST_CASE("a switch without a share in the new plan is cleared, and its absence does no harm") {
  Setup s;
  s.commit(1, {s.flow("h1", "h5", 0)});
  s.link.away = {"leaf2"};
  s.apply(2, {});
  const auto sent = s.link.take();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].rules.empty());
  s.ack("leaf1", 2);
  CHECK(s.outcomes.back().has_value());
  s.apply(3, {});
  CHECK(s.link.take().empty());
}

TEST_CASE("a newer plan overtakes one that waits, and clears what only that one gave") {
  Setup s;
  s.apply(1, {s.flow("h1", "h5", 0)});
  s.link.take();
  s.apply(2, {s.flow("h1", "h9", 0)});
  REQUIRE(s.outcomes.size() == 1);
  CHECK(!s.outcomes[0]);
  CHECK(s.link.take().size() == 3);
  s.ack("leaf1", 1);
  for (const auto* name : {"leaf1", "leaf2", "leaf3"}) s.ack(name, 2);
  REQUIRE(s.outcomes.size() == 2);
  CHECK(s.outcomes[1].has_value());
}

TEST_CASE("a switch that restarts gets the committed rules, one that joins a waiting plan that plan's") {
  Setup s;
  s.commit(1, {s.flow("h1", "h5", 0)});
  s.driver.on_switch_connected({.name = "leaf2"});
  auto sent = s.link.take();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].revision == Revision{1, 1});
  s.apply(2, {s.flow("h1", "h5", 1)});
  s.link.take();
  s.driver.on_switch_connected({.name = "leaf2"});
  sent = s.link.take();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].revision == Revision{1, 2});
  s.driver.on_switch_connected({.name = "leaf4"});
  CHECK(s.link.take().empty());
}

TEST_CASE("leases are renewed for the committed revision only, and a switch that forgot it gets the rules again") {
  Setup s;
  s.commit(1, {s.flow("h1", "h5", 0)});
  s.driver.renew({1, 7}, kLease);
  CHECK(s.link.leases.empty());
  s.driver.renew({1, 1}, kLease);
  CHECK(s.link.leases.size() == 2);
  s.ack("leaf2", 1, false);
  s.driver.poll(0);
  const auto sent = s.link.take();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].name == "leaf2");
  s.driver.poll(0);
  CHECK(s.link.take().empty());
}

TEST_CASE("withdrawing frees every switch and ends a plan that waits") {
  Setup s;
  s.commit(1, {s.flow("h1", "h5", 0)});
  s.apply(2, {s.flow("h1", "h9", 0)});
  s.driver.withdraw();
  CHECK(s.outcomes.size() == 2);
  CHECK(s.link.withdrawn.size() == 3);
  CHECK(!s.driver.path_of(connection(s.flow("h1", "h5", 0))));
  s.driver.renew({1, 1}, kLease);
  CHECK(s.link.leases.empty());
}

TEST_CASE("rules of a switch whose agent is gone are not counted on: no lease reaches it") {
  Setup s;
  const auto flow = s.flow("h1", "h5", 2);
  s.commit(1, {flow});
  REQUIRE(s.driver.path_of(connection(flow)) == flow.path);
  s.link.away.insert("leaf1");
  s.driver.on_switch_gone("leaf1");
  CHECK(!s.driver.path_of(connection(flow)));
  CHECK(!s.driver.decided_by(*s.graph.find_node("leaf1"), connection(flow)));
  s.link.away.clear();
  s.driver.on_switch_connected({.name = "leaf1"});
  CHECK(s.driver.path_of(connection(flow)) == flow.path);
}

TEST_CASE("the driver knows which path a tuple takes and which rule decides, under the same rule id in the next plan") {
  Setup s;
  const auto flow = s.flow("h1", "h5", 2);
  s.commit(1, {flow});
  CHECK(s.driver.path_of(connection(flow)) == flow.path);
  const auto leaf1 = *s.graph.find_node("leaf1");
  const auto rule = s.driver.decided_by(leaf1, connection(flow));
  CHECK(rule == "rule 1");
  s.commit(2, {s.flow("h1", "h9", 0), flow});
  CHECK(s.driver.decided_by(leaf1, connection(flow)) == rule);
  s.graph.set_link_up(flow.path[1], false);
  CHECK(s.driver.decided_by(leaf1, connection(flow)) == "rule 1, backup port");
  const auto other = s.flow("h2", "h5", 0);
  CHECK(!s.driver.path_of(connection(other)));
  CHECK(!s.driver.decided_by(leaf1, connection(other)));
}

TEST_CASE("a path that does not join up is refused before anything is sent") {
  Setup s;
  auto flow = s.flow("h1", "h5", 0);
  flow.path.erase(flow.path.begin() + 1);
  CHECK(s.driver.direct(flow).error().code == ErrorCode::kRefused);
  flow.path.clear();
  CHECK(!s.driver.direct(flow));
}

TEST_CASE("the smallest connected table is the driver's") {
  Setup s;
  s.link.table_size = 77;
  CHECK(s.driver.capabilities().table_size == 77);
  CHECK(s.driver.capabilities().exact_path);
}

}  // namespace orrery::drivers::ebpf
