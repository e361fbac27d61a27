// Plan hits, answers to orreryctl, and what a restart brings back.
#include "tests/unit/core/fixture.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

namespace {

// `rounds` all-reduces, 20 ms apart.
void train(CoreFixture& f, uint64_t rounds, uint64_t first = 0) {
  for (uint64_t i = first; i < first + rounds; ++i)
    f.call(7, 0, 0, ORRERY_OP_ALL_REDUCE, 1 << 20, i, 0xffffffff, 1'000'000'000 + i * 20 * kMs);
}

void start_job(CoreFixture& f) {
  f.announce_all(7, {0, 4});
  f.pass(100);
  f.flow(0, f.tuple(0, 4), 7, 1 << 20);
  f.flow(4, f.tuple(4, 0), 7, 1 << 20);
}

}  // namespace

TEST_CASE_METHOD(CoreFixture,
                 "collectives on time over planned paths are hits; before anything was forecast they are neither") {
  start_job(*this);
  train(*this, 2);
  CHECK(health().plan_hits + health().plan_misses == 0);
  train(*this, 30, 2);
  CHECK(health().plan_hits >= 25);
  CHECK(health().plan_misses == 0);
  CHECK(jobs().at(0).plan_hits == health().plan_hits);
  CHECK(jobs().at(0).collectives == 32);
  const auto forecasts = ask<std::vector<msg::ForecastState>>({msg::Request::Kind::kForecastList});
  REQUIRE(forecasts.size() == 1);
  CHECK(forecasts[0].op == ORRERY_OP_ALL_REDUCE);
  CHECK(forecasts[0].period_ns == Approx(20 * kMs).epsilon(0.01));
}

TEST_CASE_METHOD(CoreFixture, "a collective over a flow that strayed, or over one nobody reported, is a miss") {
  start_job(*this);
  train(*this, 10);
  flow(4, tuple(4, 0), 7, 1 << 20, msg::FlowReport::Kind::kGone);
  const uint64_t hits = health().plan_hits;
  train(*this, 5, 10);
  CHECK(health().plan_hits == hits);
  CHECK(health().plan_misses == 5);
}

TEST_CASE_METHOD(CoreFixture, "control connections with next to no bytes do not decide over hit and miss") {
  driver.capable.moves_live_flows = false;
  driver.applied.clear();
  start_job(*this);
  // A second connection of the pair that ECMP takes elsewhere than the big one: it is small beside it.
  const auto big = fabric.ecmp_path(tuple(0, 4));
  uint16_t port = 40001;
  while (fabric.ecmp_path(tuple(0, 4, port)) == big) ++port;
  flow(0, tuple(0, 4), 7, 100 << 20);
  flow(0, tuple(0, 4, port), 7, 100 << 10);
  train(*this, 20);
  CHECK(health().plan_hits > 10);
}

TEST_CASE_METHOD(CoreFixture,
                 "the plan's list tells state, bytes, optimum and whether flows are where they should be") {
  announce_all(7, {0, 4});
  core.step(now);
  CHECK(plan().flows.at(0).state == msg::PlannedFlow::State::kPlanned);
  acknowledge_all();
  core.step(now);
  const auto list = plan();
  CHECK(list.term == 5);
  CHECK(list.revision == 1);
  CHECK(list.driver == "fake");
  CHECK(list.max_load_bytes == list.lower_bound_bytes);
  CHECK(list.max_load_bytes > 0);
  CHECK(list.bounds.known());
  CHECK(list.bounds.gap_percent() == 0);
  CHECK(list.flows.at(0).state == msg::PlannedFlow::State::kAcknowledged);
  CHECK(list.flows.at(0).src_host == host(0));
  flow(0, tuple(0, 4), 7, 1 << 20);
  CHECK(plan().flows.at(0).state == msg::PlannedFlow::State::kAlive);
  CHECK(plan().flows.at(0).tuple == tuple(0, 4));
  CHECK(plan().flows.at(0).on_path == msg::PlannedFlow::OnPath::kYes);
}

TEST_CASE_METHOD(CoreFixture,
                 "a flow is explained with reasons, hops, loads and alternatives; an unknown one with where to look") {
  start_job(*this);
  const auto id = plan().flows.at(0).flow_id;
  const auto explanation = ask<msg::FlowExplanation>({msg::Request::Kind::kFlowExplain, id});
  CHECK_FALSE(explanation.reasons.empty());
  REQUIRE(explanation.hops.size() == 4);
  CHECK(explanation.hops[0].decided_by == "only route");
  CHECK(explanation.hops[1].decided_by.starts_with("ECMP member "));
  CHECK(explanation.hops[1].alternatives.size() == 3);
  CHECK(explanation.hops[1].load_bytes > 0);
  CHECK(ask<msg::RequestError>({msg::Request::Kind::kFlowExplain, 999}).message.find("orreryctl plan list") !=
        std::string::npos);
}

TEST_CASE_METHOD(CoreFixture, "a flow the driver refuses is unmanaged, and says why") {
  driver.refused_flows = {1};
  start_job(*this);
  CHECK(has_problem("1 of 2 flows are unmanaged"));
  const auto reasons = ask<msg::FlowExplanation>({msg::Request::Kind::kFlowExplain, 1}).reasons;
  CHECK(std::any_of(reasons.begin(), reasons.end(), [](const std::string& text) {
    return text.find("stays unmanaged: no room") != std::string::npos;
  }));
}

TEST_CASE_METHOD(CoreFixture,
                 "links show planned bytes and what telemetry measured over the last second, also of a host's NIC") {
  start_job(*this);
  const std::string port = plan().flows.at(0).path.at(1);
  const std::string leaf = port.substr(0, port.find(':'));
  const std::string down_port = fabric.link_name(fabric.link(fabric.nics()[0].uplink).reverse);
  const uint64_t tai = tai_now_ns();
  for (uint64_t sample = 0; sample <= 20; ++sample)
    core.on_telemetry({.switch_name = leaf,
                       .at_tai_ns = tai - (20 - sample) * 100 * kMs,
                       .links = {{.port = port, .up = true, .tx_bytes = sample * 625'000, .drops = 3},
                                 {.port = down_port, .up = true, .rx_bytes = sample * 125'000}},
                       .queues = {{.port = port, .max_bytes = 777}}},
                      now);
  const auto links = ask<std::vector<msg::LinkState>>({msg::Request::Kind::kLinkList});
  CHECK(links.size() == fabric.links().size());
  const auto find = [&](const std::string& name) {
    return *std::find_if(links.begin(), links.end(), [&](const auto& link) { return link.port == name; });
  };
  CHECK(find(port).utilization == Approx(0.5).epsilon(0.02));
  CHECK(find(port).drops == 3);
  CHECK(find(port).queue_max_bytes == 777);
  CHECK(find(port).flows == 1);
  CHECK(find(port).planned_bytes > 0);
  CHECK(find(fabric.link_name(fabric.nics()[0].uplink)).utilization == Approx(0.1).epsilon(0.02));
}

TEST_CASE_METHOD(CoreFixture, "a switch cannot speak of another switch's ports") {
  core.on_telemetry(
      {.switch_name = "leaf2", .at_tai_ns = 1, .links = {{.port = "leaf1:p5", .up = false}, {.port = "nonsense:p1"}}},
      now);
  CHECK(std::all_of(fabric.links().begin(), fabric.links().end(), [](const fabric::Link& link) { return link.up; }));
}

TEST_CASE_METHOD(CoreFixture, "health names absent agents and switches with the cure, and lost events") {
  disconnect(3);
  send(0, {.losses = {.ring_dropped = 2}});
  core.on_switch_connected({.switch_name = "leaf1"}, now);
  CHECK(health().hosts_connected == 15);
  CHECK(health().hosts_known == 16);
  CHECK(health().switches_connected == 1);
  CHECK(has_problem("no agent on 1 of 16 hosts (" + host(3) + ")"));
  CHECK(has_problem("start orrery-switch"));
  CHECK(has_problem("limits.ring_events_count"));
  CHECK(driver.switch_messages == 1);
  core.on_switch_ack({.name = "leaf1", .revision = 1, .accepted = false, .reason = "table full"}, now);
  CHECK(has_problem("switch leaf1 refuses its rules: table full"));
}

TEST_CASE_METHOD(CoreFixture, "a new core with the saved state sends the same plan under its own term") {
  start_job(*this);
  flow(1, tuple(1, 13), 0, 2 << 20);
  pass(200);
  REQUIRE_FALSE(saved.empty());
  CoreFixture next;
  next.core.restore(saved.back(), next.now);
  next.core.step(next.now);
  REQUIRE(next.driver.applied.size() == 1);
  REQUIRE(next.driver.applied[0].flows.size() == driver.applied.back().flows.size());
  for (size_t i = 0; i < driver.applied.back().flows.size(); ++i) {
    CHECK(next.driver.applied[0].flows[i].flow_id == driver.applied.back().flows[i].flow_id);
    CHECK(next.driver.applied[0].flows[i].tuple == driver.applied.back().flows[i].tuple);
    CHECK(next.driver.applied[0].flows[i].path == driver.applied.back().flows[i].path);
  }
  next.pass(6000);  // nobody reports the plain flow
  CHECK(next.plan().flows.size() == 2);
}

TEST_CASE_METHOD(CoreFixture, "a communicator placed like one that was learned begins with what that one did") {
  announce_all(7, {0, 4, 8, 12});
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, 1 << 20, 0);
  pass(200);
  for (uint32_t rank = 0; rank < 4; ++rank)
    send(rank * 4, {.communicators = {{.kind = msg::CommunicatorEvent::Kind::kGone, .comm_id = 7, .rank = rank}}});
  pass(200);
  CHECK(plan().flows.empty());
  announce_all(8, {0, 4, 8, 12});
  core.step(now);
  CHECK(plan().flows.size() == 12);
}

TEST_CASE_METHOD(CoreFixture, "what was learned is saved also when the plan stays the same") {
  announce_all(7, {0, 4, 8, 12});
  pass(100);
  const size_t saves = saved.size();
  call(7, 0, 0, ORRERY_OP_ALL_REDUCE, 1 << 20, 0);
  pass(3000);
  REQUIRE(saved.size() == saves + 1);
  CHECK(saved.back().signatures.size() == 1);
  pass(3000);
  CHECK(saved.size() == saves + 1);
}

TEST_CASE_METHOD(
    CoreFixture,
    "when the agent of the observed rank restarts, its count begins again; when it is gone, another rank is observed") {
  start_job(*this);
  train(*this, 10);
  sequences.erase(host(0));
  send(0, {.agent_start_tai_ns = 9});
  send(0, {.intents = {{.comm_id = 7,
                        .rank = 0,
                        .op = ORRERY_OP_ALL_REDUCE,
                        .bytes = 1 << 20,
                        .called_tai_ns = 1'200'000'000,
                        .sequence = 0}},
           .agent_start_tai_ns = 9});
  CHECK(jobs().at(0).collectives == 11);
  call(7, 1, 4, ORRERY_OP_ALL_REDUCE, 1 << 20, 10);  // the other rank's view of it
  CHECK(jobs().at(0).collectives == 11);
  disconnect(0);
  call(7, 1, 4, ORRERY_OP_ALL_REDUCE, 1 << 20, 11, 0xffffffff, 1'220'000'000);
  CHECK(jobs().at(0).collectives == 12);
}

TEST_CASE_METHOD(CoreFixture, "a collective that crosses no link is neither a plan's hit nor its miss") {
  announce_all(7, {0, 0});
  pass(100);
  train(*this, 20);
  CHECK(jobs().at(0).collectives == 20);
  CHECK(health().plan_hits + health().plan_misses == 0);
}

TEST_CASE_METHOD(CoreFixture,
                 "a flow that no plan sent where it is stays a miss, though later plans take it as given") {
  driver.capable.moves_live_flows = driver.steers_network = false;
  announce_all(7, {0, 4});
  pass(100);
  const auto planned = plan().flows.at(0).path;
  uint16_t port = 40001;
  while (fabric.path_names(*fabric.ecmp_path(tuple(0, 4, port))) == planned) ++port;
  flow(0, tuple(0, 4, port), 7, 1 << 20);
  flow(4, tuple(4, 0), 7, 1 << 20);
  for (uint64_t round = 0; round < 3; ++round) {  // each plans anew
    train(*this, 10, round * 10);
    announce_all(100 + round, {1, 5 + round});
    pass(200);
  }
  CHECK(fabric.path_names(*fabric.ecmp_path(tuple(0, 4, port))) == plan().flows.at(0).path);
  CHECK(health().plan_hits == 0);
  CHECK(health().plan_misses > 20);
}

TEST_CASE_METHOD(CoreFixture, "a plain flow whose tuple is used again for next to nothing leaves the plan") {
  flow(0, tuple(0, 12), 0, 2 << 20);
  pass(100);
  REQUIRE(plan().flows.size() == 1);
  flow(0, tuple(0, 12), 0, 100, msg::FlowReport::Kind::kBorn);
  pass(100);
  CHECK(plan().flows.empty());
}

TEST_CASE_METHOD(CoreFixture, "a flow whose end was in a lost window is gone a minute later, one that goes on is not") {
  flow(0, tuple(0, 12), 0, 2 << 20);
  flow(0, tuple(0, 8), 0, 2 << 20);
  pass(100);
  REQUIRE(plan().flows.size() == 2);
  ++sequences[host(0)];
  flow(0, tuple(0, 8), 0, 3 << 20);
  flow(0, tuple(0, 8), 0, 4 << 20);
  pass(61'000);
  CHECK(plan().flows.size() == 1);
}
