#include "controller/rollout/rollout.h"

#include <catch2/catch.hpp>

#include "controller/fabric/topology.h"
#include "tests/fakes/fake_agent_link.h"
#include "tests/fakes/fake_driver.h"

using namespace orrery;
using namespace orrery::rollout;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kTerm = 5;

struct Fixture {
  fabric::Graph fabric = fabric::Graph::build(*fabric::generate_leaf_spine({}));
  test::FakeDriver driver;
  test::FakeAgentLink agents;
  telemetry::Metrics metrics;
  Rollout rollout{fabric, driver, agents, metrics, {}, kTerm};
  uint64_t now = 1000 * kMs;

  Fixture() { connect({"h1", "h2"}); }
  void connect(const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) {
      agents.connected.push_back(host);
      rollout.on_agent_connected(host, now);
    }
  }
  // A flow out of h1 (and out of h2 for an even id).
  drivers::Flow flow(uint64_t id, size_t path = 0) const {
    const fabric::Nic &src = fabric.nics()[id % 2 ? 0 : 1], &dst = fabric.nics()[15];
    return {.flow_id = id, .comm_id = 9, .src = src.address, .dst = dst.address, .path = fabric.paths(src, dst)[path]};
  }
  void ack(const std::string& host, drivers::Revision revision, bool accepted = true) {
    rollout.on_ack({.name = host,
                    .term = revision.term,
                    .revision = revision.number,
                    .accepted = accepted,
                    .reason = accepted ? "" : "table full",
                    .entries = 1},
                   now);
  }
  drivers::Revision commit(const std::vector<drivers::Flow>& flows) {
    const drivers::Revision revision = rollout.start(flows, now);
    for (const std::string& host : agents.connected) ack(host, revision);
    REQUIRE(rollout.settled());
    REQUIRE(rollout.take_outcomes().back().committed);
    return revision;
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture,
                 "hosts are told only after the network has the plan, and the plan stands when all have acknowledged") {
  driver.answer_at_once = false;
  const drivers::Revision revision = rollout.start({flow(1), flow(2)}, now);
  CHECK(agents.plans.empty());
  driver.applied.back().done({});
  CHECK(agents.plans.size() == 2);
  CHECK(agents.last_plan("h1").flows.front().flow_id == 1);
  CHECK(agents.last_plan("h1").term == kTerm);
  CHECK(agents.last_plan("h1").lease_ns == 3000 * kMs);
  ack("h1", revision);
  CHECK_FALSE(rollout.settled());
  CHECK_FALSE(rollout.acknowledged(1));
  ack("h2", revision);
  CHECK(rollout.settled());
  CHECK(rollout.acknowledged(1));
  CHECK(rollout.hosts().at("h1").acknowledged == revision);
}

TEST_CASE_METHOD(Fixture, "a refusal brings the previous plan back everywhere under a new revision") {
  const drivers::Revision first = commit({flow(1, 0)});
  const drivers::Revision second = rollout.start({flow(1, 1), flow(2, 1)}, now);
  ack("h2", second, false);
  CHECK(driver.applied.back().revision > second);
  CHECK(driver.applied.back().flows.front().path == flow(1, 0).path);
  CHECK(agents.last_plan("h1").revision > second.number);
  CHECK(agents.last_plan("h1").flows.front().path == fabric.path_names(flow(1, 0).path));
  CHECK(agents.last_plan("h2").flows.empty());
  const auto outcomes = rollout.take_outcomes();
  REQUIRE(outcomes.size() == 1);
  CHECK_FALSE(outcomes[0].committed);
  CHECK(outcomes[0].reason.find("host h2 refused it: table full") != std::string::npos);
  for (const char* host : {"h1", "h2"}) ack(host, {kTerm, agents.last_plan(host).revision});
  CHECK(rollout.settled());
  CHECK(rollout.take_outcomes().back().rollback);
  CHECK(first < rollout.revision());
}

TEST_CASE_METHOD(Fixture, "without a previous plan a refusal withdraws") {
  const drivers::Revision revision = rollout.start({flow(1), flow(2)}, now);
  ack("h1", revision);
  ack("h2", revision, false);
  CHECK(driver.withdrawals == 1);
  CHECK(agents.withdrawn.size() == 2);
  CHECK(rollout.settled());
  CHECK(rollout.hosts().at("h2").refusal == "table full");
}

TEST_CASE_METHOD(Fixture, "a silent agent fails the plan once and is not waited for again until it speaks") {
  commit({flow(1)});
  rollout.start({flow(1, 1), flow(2, 1)}, now);
  ack("h1", rollout.revision());
  now += 1000 * kMs;
  rollout.poll(now);
  CHECK(rollout.hosts().at("h2").silent);
  CHECK_FALSE(rollout.take_outcomes().front().committed);
  ack("h1", rollout.revision());
  CHECK(rollout.settled());
  const drivers::Revision again = rollout.start({flow(1, 1), flow(2, 1)}, now);
  ack("h1", again);
  CHECK(rollout.settled());
  CHECK(rollout.take_outcomes().back().committed);
  CHECK(agents.last_plan("h2").revision == again.number);
  ack("h2", again);
  CHECK_FALSE(rollout.hosts().at("h2").silent);
}

TEST_CASE_METHOD(Fixture, "a driver that fails or never answers costs only the plan") {
  const drivers::Revision first = commit({flow(1)});
  driver.answer_at_once = false;
  rollout.start({flow(1, 1)}, now);
  driver.applied.back().done(Error{ErrorCode::kRefused, "leaf1: table full"});
  CHECK(rollout.take_outcomes().front().reason == "the fake driver: leaf1: table full");
  driver.applied.back().done({});
  ack("h1", rollout.revision());
  CHECK(rollout.settled());
  CHECK(first < rollout.revision());

  const auto sent = agents.plans.size();
  rollout.start({flow(1, 2)}, now);
  const drivers::Completion late = driver.applied.back().done;
  now += 3000 * kMs;
  driver.answer_at_once = true;
  rollout.poll(now);
  CHECK(agents.plans.size() == sent + 1);
  late({});
  CHECK(agents.last_plan("h1").flows.front().path == fabric.path_names(flow(1, 0).path));
}

TEST_CASE_METHOD(Fixture, "when bringing the previous plan back fails too, everything is withdrawn") {
  commit({flow(1)});
  const drivers::Revision second = rollout.start({flow(1, 1)}, now);
  ack("h1", second, false);
  ack("h1", rollout.revision(), false);
  CHECK(driver.withdrawals == 1);
  CHECK(agents.withdrawn.back().first == "h1");
  CHECK(rollout.settled());
}

TEST_CASE_METHOD(Fixture,
                 "a newer plan overtakes one that waits for hosts, and waits for one that the network works on") {
  const drivers::Revision first = rollout.start({flow(1, 0)}, now);
  const drivers::Revision second = rollout.start({flow(1, 1)}, now);
  ack("h1", first);
  CHECK_FALSE(rollout.settled());
  ack("h1", second);
  CHECK(rollout.settled());
  CHECK(rollout.take_outcomes().size() == 1);

  driver.answer_at_once = false;
  rollout.start({flow(1, 2)}, now);
  const drivers::Completion done = driver.applied.back().done;
  rollout.start({flow(1, 0)}, now);
  const drivers::Revision newest = rollout.start({flow(1, 3)}, now);
  CHECK(driver.applied.back().flows.front().path == flow(1, 2).path);
  done({});
  CHECK(driver.applied.back().revision == newest);
  driver.applied.back().done({});
  CHECK(agents.last_plan("h1").flows.front().path == fabric.path_names(flow(1, 3).path));
}

TEST_CASE_METHOD(Fixture, "an agent that returns gets the plan in force at once; one that leaves is not waited for") {
  commit({flow(1)});
  rollout.on_agent_gone("h1", now);
  rollout.on_agent_connected("h1", now);
  CHECK(agents.plans.size() == 2);
  CHECK(agents.last_plan("h1").flows.size() == 1);

  const drivers::Revision revision = rollout.start({flow(1, 1), flow(2, 1)}, now);
  ack("h1", revision);
  rollout.on_agent_gone("h2", now);
  CHECK(rollout.settled());
  CHECK(rollout.take_outcomes().back().committed);
}

TEST_CASE_METHOD(Fixture, "an agent that returns with nothing left to do is not waited for") {
  commit({flow(1), flow(2)});
  const drivers::Revision revision = rollout.start({flow(1)}, now);
  ack("h1", revision);
  CHECK_FALSE(rollout.settled());
  rollout.on_agent_connected("h2", now);
  CHECK(rollout.settled());
}

TEST_CASE_METHOD(Fixture,
                 "after a stall longer than the lease the plan is sent again, because everybody has dropped it") {
  commit({flow(1)});
  rollout.poll(now);
  const auto sent = agents.plans.size();
  rollout.poll(now + 10'000 * kMs);
  CHECK(agents.plans.size() == sent + 1);
  CHECK(driver.applied.size() == 2);
}

TEST_CASE_METHOD(Fixture, "leases are renewed once a second, for the network and for the hosts that have flows") {
  const drivers::Revision revision = commit({flow(1)});
  rollout.poll(now);
  rollout.poll(now + 500 * kMs);
  CHECK(driver.renewed == std::vector{revision});
  rollout.poll(now + 1000 * kMs);
  CHECK(driver.renewed.size() == 2);
  CHECK(agents.leases == std::vector<std::pair<std::string, drivers::Revision>>{{"h1", revision}, {"h1", revision}});
}

TEST_CASE_METHOD(Fixture, "a host that no longer sends anything is told so") {
  commit({flow(1), flow(2)});
  rollout.start({flow(1)}, now);
  CHECK(agents.last_plan("h2").flows.empty());
  CHECK(agents.last_plan("h2").revision == rollout.revision().number);
}

TEST_CASE_METHOD(Fixture, "acknowledgements of other terms, of plans never sent and of strangers change nothing") {
  const drivers::Revision revision = rollout.start({flow(1)}, now);
  ack("h1", {kTerm - 1, revision.number});
  ack("h1", {kTerm, revision.number + 1});
  ack("h9", revision);
  CHECK_FALSE(rollout.settled());
  CHECK(rollout.hosts().at("h1").acknowledged.number == 0);
}

TEST_CASE_METHOD(Fixture, "a driver that applies nothing commits at once and tells nobody") {
  driver.capable.applies = false;
  rollout.start({flow(1)}, now);
  CHECK(rollout.settled());
  CHECK(agents.plans.empty());
}

TEST_CASE_METHOD(Fixture,
                 "a host that could not be sent a plan gets it with the next renewal, not a lease on the old") {
  commit({flow(1), flow(2)});
  agents.full = {"h1"};
  const drivers::Revision revision = rollout.start({flow(1, 1), flow(2)}, now);
  ack("h2", revision);
  REQUIRE(rollout.settled());
  CHECK(agents.last_plan("h1").revision == revision.number - 1);
  agents.full.clear();
  agents.leases.clear();
  now += 1000 * kMs;
  rollout.poll(now);
  CHECK(agents.last_plan("h1").revision == revision.number);
  REQUIRE(agents.leases.size() == 1);
  CHECK(agents.leases[0].first == "h2");
}
