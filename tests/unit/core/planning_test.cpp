// When the core plans, for what, and what it tells the driver and the hosts.
#include "tests/unit/core/fixture.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

TEST_CASE_METHOD(CoreFixture, "nothing is planned before every rank has announced, and then at once: a ring") {
  for (uint32_t rank = 0; rank < 3; ++rank) announce(7, rank, rank * 4, 4);
  core.step(now);
  CHECK(driver.applied.empty());
  announce(7, 3, 12, 4);
  core.step(now);
  REQUIRE(driver.applied.size() == 1);
  CHECK(driver.applied[0].flows.size() == 4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto& flow = driver.applied[0].flows[rank];
    CHECK(flow.comm_id == 7);
    CHECK(fabric.link(flow.path.front()).from == fabric.find_nic(flow.src)->host);
    CHECK(fabric.link(flow.path.back()).to == fabric.find_nic(flow.dst)->host);
    CHECK(agents.last_plan(host(rank * 4)).flows.size() == 1);
  }
}

TEST_CASE_METHOD(CoreFixture, "ranks of one host need no fabric, and their pair is not planned") {
  announce_all(7, {0, 0, 4, 4});
  core.step(now);
  REQUIRE(driver.applied.size() == 1);
  CHECK(driver.applied[0].flows.size() == 2);
}

TEST_CASE_METHOD(CoreFixture, "a host is believed only of its own addresses and ranks") {
  send(0, {.communicators = {{.comm_id = 7, .rank = 0, .nranks = 1, .address = address(5)}}});
  CHECK(jobs().empty());
  announce(7, 0, 0, 2);
  announce(7, 0, 5, 2);  // a rank that another host has
  announce(7, 1, 4, 2);
  core.step(now);
  CHECK(jobs().at(0).hosts == std::vector<std::string>{host(0), host(4)});
  call(7, 0, 9, ORRERY_OP_ALL_REDUCE, 1 << 20, 0);  // an intent of another host's rank
  CHECK(jobs().at(0).collectives == 0);
  flow(9, tuple(0, 4), 7, 1 << 20);
  CHECK(plan().flows.at(0).on_path == msg::PlannedFlow::OnPath::kUnknown);
}

TEST_CASE_METHOD(CoreFixture, "what a program sends to its peers one after another is not paced for all at once") {
  announce_all(7, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto paced = [&] {
    size_t count = 0;
    for (const auto& flow : plan().flows) count += flow.pace_bps != 0;
    return count;
  };
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, 1 << 20, 0);
  pass(100);
  CHECK(plan().flows.size() == 8 * 7);
  CHECK(paced() == 0);
}

TEST_CASE_METHOD(CoreFixture,
                 "an operation over pairs that no plan has is planned at once; bytes that grow wait for others") {
  announce_all(7, {0, 4, 8, 12});
  pass(0);
  const size_t plans = driver.applied.size();
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, 1 << 20, 0);
  core.step(now);
  REQUIRE(driver.applied.size() == plans + 1);
  CHECK(driver.applied.back().flows.size() == 12);
  CHECK(core.wait_ms(now, 1000) == 1000);
  call(7, 0, 0, ORRERY_OP_ALL_TO_ALL, 1 << 24, 1);
  const int wait = core.wait_ms(now, 1000);
  CHECK(wait > 0);
  CHECK(wait <= 50);
}

TEST_CASE_METHOD(CoreFixture, "the same demand planned again is not rolled out again") {
  announce_all(7, {0, 4, 8, 12});
  pass(100);
  const size_t plans = driver.applied.size();
  for (uint64_t i = 0; i < 5; ++i) call(7, 0, 0, ORRERY_OP_ALL_REDUCE, (1 << 20) << i, i);
  pass(500);
  CHECK(driver.applied.size() == plans);
  CHECK(plan().flows.at(0).bytes_per_round > 0);
}

TEST_CASE_METHOD(CoreFixture, "flow ids and paths stay when others come and go") {
  announce_all(7, {0, 4, 8, 12});
  pass(100);
  std::map<uint64_t, std::vector<std::string>> before;
  for (const auto& flow : plan().flows) before[flow.flow_id] = flow.path;
  announce_all(8, {1, 5, 9, 13});
  pass(100);
  CHECK(plan().flows.size() == 8);
  for (const auto& flow : plan().flows)
    if (flow.comm_id == 7) CHECK(before.at(flow.flow_id) == flow.path);
  for (uint32_t rank = 0; rank < 4; ++rank)
    send(rank * 4 + 1, {.communicators = {{.kind = msg::CommunicatorEvent::Kind::kGone, .comm_id = 8, .rank = rank}}});
  pass(100);
  CHECK(plan().flows.size() == 4);
  CHECK(jobs().size() == 1);
  for (const auto& flow : plan().flows) CHECK(before.at(flow.flow_id) == flow.path);
}

TEST_CASE_METHOD(CoreFixture,
                 "a communicator of which one rank went is forgotten soon, also when the others never say so") {
  announce_all(7, {0, 4});
  pass(100);
  send(0, {.communicators = {{.kind = msg::CommunicatorEvent::Kind::kGone, .comm_id = 7, .rank = 0}}});
  pass(2000);
  CHECK(jobs().empty());
  CHECK(plan().flows.empty());
  announce_all(7, {0, 4});  // the id lives again
  pass(100);
  CHECK(plan().flows.size() == 2);
}

TEST_CASE_METHOD(CoreFixture, "a link that goes down is planned around at once, and used again when it is back") {
  announce_all(7, {0, 4, 8, 12});
  pass(100);
  const auto flow = plan().flows.at(0);
  const std::string port = flow.path.at(1);
  const std::string leaf = port.substr(0, port.find(':'));
  core.on_telemetry({.switch_name = leaf, .at_tai_ns = 1, .links = {{.port = port, .up = false}}}, now);
  core.step(now);
  acknowledge_all();
  for (const auto& planned : plan().flows)
    CHECK(std::find(planned.path.begin(), planned.path.end(), port) == planned.path.end());
  CHECK(has_problem("1 links are down"));
  core.on_telemetry(
      {.switch_name = leaf, .at_tai_ns = 2, .events = {{.kind = msg::PathEvent::Kind::kPortUp, .port = port}}}, now);
  pass(100);
  CHECK_FALSE(has_problem("links are down"));
}

TEST_CASE_METHOD(
    CoreFixture,
    "a communicator whose host lost its agent for two leases is forgotten; a short absence changes nothing") {
  announce_all(7, {0, 4});
  pass(100);
  disconnect(4);
  pass(2500);
  CHECK(jobs().size() == 1);
  connect(4);
  pass(5000);
  CHECK(jobs().size() == 1);
  disconnect(4);
  pass(3100);
  CHECK(jobs().empty());
  CHECK(plan().flows.empty());
}

TEST_CASE_METHOD(CoreFixture,
                 "a plain flow is planned by its five-tuple once it carries real bytes, each direction by itself") {
  flow(0, tuple(0, 12), 0, 4096, msg::FlowReport::Kind::kBorn);
  pass(100);
  CHECK(plan().flows.empty());
  flow(0, tuple(0, 12), 0, 2 << 20);
  flow(12, tuple(0, 12).reversed(), 0, 3 << 20);
  pass(100);
  REQUIRE(driver.applied.back().flows.size() == 2);
  CHECK(driver.applied.back().flows[0].tuple == tuple(0, 12));
  CHECK(driver.applied.back().flows[1].tuple == tuple(0, 12).reversed());
  CHECK(agents.plans.empty());  // nothing for the hosts to do
  flow(0, tuple(0, 12), 0, 2 << 20, msg::FlowReport::Kind::kGone);
  pass(100);
  CHECK(driver.applied.back().flows.size() == 1);
}

TEST_CASE_METHOD(CoreFixture, "what a driver cannot move is a fixed load where ECMP takes it") {
  driver.capable.moves_live_flows = false;
  flow(0, tuple(0, 12), 0, 2 << 20);
  announce_all(7, {1, 13});
  pass(100);
  const auto flows = plan().flows;
  REQUIRE(flows.size() == 3);
  const auto fixed = std::find_if(flows.begin(), flows.end(), [](const auto& one) { return one.comm_id == 0; });
  CHECK(fixed->state == msg::PlannedFlow::State::kFixed);
  CHECK(fixed->path == fabric.path_names(*fabric.ecmp_path(tuple(0, 12))));
  for (const auto& flow : driver.applied.back().flows) CHECK(flow.comm_id == 7);
}

TEST_CASE_METHOD(CoreFixture, "flows of an agent that restarted are void until it reports them again") {
  flow(0, tuple(0, 12), 0, 2 << 20);
  pass(100);
  CHECK(plan().flows.size() == 1);
  sequences.clear();
  send(0, {.agent_start_tai_ns = 9});
  pass(100);
  CHECK(plan().flows.empty());
}

TEST_CASE_METHOD(CoreFixture, "a plan that was taken back is tried again after a pause") {
  announce_all(7, {0, 4});
  core.step(now);
  const auto refused = agents.last_plan(host(4));
  core.on_agent_ack(
      {.name = host(4), .term = refused.term, .revision = refused.revision, .accepted = false, .reason = "no room"},
      now);
  core.step(now);
  CHECK(has_problem("refused it: no room"));
  const size_t plans = driver.applied.size();
  pass(4000);
  CHECK(driver.applied.size() == plans);
  pass(2000);
  CHECK(driver.applied.size() == plans + 1);
  CHECK_FALSE(has_problem("refused it"));
}

TEST_CASE_METHOD(CoreFixture,
                 "windows that repeat or come from an agent that was replaced are ignored, gaps are counted") {
  msg::IntentWindow window{.host = host(0), .sequence = 5, .agent_start_tai_ns = 100};
  core.on_window(window, now);
  core.on_window(window, now);
  window.sequence = 9;
  core.on_window(window, now);
  window = {.host = host(0), .sequence = 1, .agent_start_tai_ns = 50};
  core.on_window(window, now);
  const auto hosts = ask<std::vector<msg::HostState>>({msg::Request::Kind::kHostList});
  const auto first = std::find_if(hosts.begin(), hosts.end(), [&](const auto& one) { return one.host == host(0); });
  CHECK(first->windows == 2);
  CHECK(first->windows_lost == 3);
}

TEST_CASE_METHOD(CoreFixture,
                 "communicators that use the same pair share its flow, which then belongs to none of them alone") {
  announce_all(7, {0, 4});
  pass(100);
  const auto before = plan().flows;
  announce_all(8, {0, 4});
  pass(100);
  const auto shared = plan().flows;
  REQUIRE(shared.size() == before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].comm_id == 7);
    CHECK(shared[i].comm_id == 0);
    CHECK(shared[i].flow_id == before[i].flow_id);
    CHECK(shared[i].path == before[i].path);
    CHECK(shared[i].bytes_per_round == 2 * before[i].bytes_per_round);
  }
  CHECK(agents.last_plan(host(0)).flows.at(0).comm_id == 0);
}

TEST_CASE_METHOD(CoreFixture,
                 "a host without part in a communicator cannot bring it down, a member can begin it anew") {
  announce_all(7, {0, 4});
  pass(100);
  announce(7, 0, 8, 3);
  CHECK(jobs().at(0).nranks == 2);
  announce(7, 0, 4, 3);
  CHECK(jobs().at(0).nranks == 3);
  CHECK(jobs().at(0).announced == 1);
}

TEST_CASE_METHOD(CoreFixture, "no host fills the plan with plain flows or the books with communicators") {
  for (uint16_t port = 1; port <= 200; ++port) flow(0, tuple(0, 12, port), 0, 2 << 20);
  pass(100);
  CHECK(plan().flows.size() == 64);
  msg::IntentWindow window;
  for (uint64_t id = 1; id <= 5000; ++id)
    window.communicators.push_back({.comm_id = id, .nranks = 2, .address = address(0)});
  send(0, window);
  CHECK(jobs().size() == 4096);
  announce_all(9999, {4, 8});
  core.step(now);
  CHECK(jobs().size() == 4097);
}

TEST_CASE_METHOD(CoreFixture,
                 "a plan that failed is not tried again because bytes grew, but a different one is tried at once") {
  announce_all(7, {0, 4});
  core.step(now);
  const auto refused = agents.last_plan(host(4));
  core.on_agent_ack({.name = host(4), .term = refused.term, .revision = refused.revision, .accepted = false}, now);
  core.step(now);
  const size_t plans = driver.applied.size();
  call(7, 0, 0, ORRERY_OP_ALL_REDUCE, 1 << 24, 0);
  pass(1000);
  CHECK(driver.applied.size() == plans);
  announce_all(8, {8, 12});
  core.step(now);
  CHECK(driver.applied.size() == plans + 1);
}

TEST_CASE_METHOD(CoreFixture, "ranks together are bounded, whatever communicators claim them") {
  constexpr uint32_t kRanks = 65'536;
  msg::IntentWindow window;
  uint64_t accepted = 0;
  for (uint64_t comm = 1; comm <= 17; ++comm) {
    // One rank at first, so that each communicator is in the book before the bound is reached.
    window.communicators.push_back({.comm_id = comm, .rank = 0, .nranks = kRanks, .address = address(0)});
  }
  for (uint64_t comm = 1; comm <= 17; ++comm)
    for (uint32_t rank = 1; rank < kRanks; ++rank)
      window.communicators.push_back({.comm_id = comm, .rank = rank, .nranks = kRanks, .address = address(0)});
  daemon::CommunicatorBook book(fabric);
  for (const auto& event : window.communicators) book.on_event(host(0), event, now);
  for (const auto& [id, communicator] : book.all()) accepted += communicator.ranks.size();
  CHECK(accepted == 1u << 20);
  CHECK(book.refused() == 17ull * kRanks - accepted);
}

TEST_CASE("an agent whose clock was set back is heard again once the old one is silent") {
  const auto fabric = fabric::Graph::build(*fabric::generate_leaf_spine({}));
  daemon::HostBook book(fabric, 0);
  using Arrival = daemon::HostBook::Arrival;
  constexpr uint64_t kSecond = 1000 * kMs;
  const auto window = [](uint64_t sequence, uint64_t start) {
    return msg::IntentWindow{.host = "h1", .sequence = sequence, .agent_start_tai_ns = start};
  };
  CHECK(book.on_window(window(1, 900 * kSecond), 100 * kSecond) == Arrival::kRestarted);
  CHECK(book.on_window(window(1, 99 * kSecond), 100 * kSecond + kMs) == Arrival::kRepeated);
  CHECK(book.on_window(window(1, 99 * kSecond), 103 * kSecond) == Arrival::kRestarted);
  CHECK(book.on_window(window(2, 99 * kSecond), 103 * kSecond + kMs) == Arrival::kNext);
}
