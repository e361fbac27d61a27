// Pairs of hosts that speak RoCE: one path for both protocols, queue pairs that move, and traffic without the CPU.
#include <netinet/in.h>

#include "tests/unit/core/fixture.h"

using namespace orrery;
using orrery::test::CoreFixture;
using orrery::test::kMs;

namespace {

constexpr uint64_t kBytes = 1 << 20;

struct RoceFixture : CoreFixture {
  void greet(size_t nic, bool roce = true) {
    msg::AgentHello hello{.host = host(nic), .features = {"preload"}};
    if (roce) hello.features.emplace_back("roce");
    core.on_agent_hello(hello, now);
  }
  // With communicator 7 still there, and its ranks still on `nics`.
  void a_minute_later(const std::vector<size_t>& nics) {
    now += 60'000 * kMs;
    announce_all(7, nics);
  }
  FiveTuple pair_tuple(size_t src, size_t dst, uint16_t sport) const {
    return {address(src), address(dst), sport, 4791, IPPROTO_UDP};
  }
  void queue_pair(size_t src, size_t dst, uint16_t sport, uint32_t qpn, uint64_t comm_id, uint64_t tx_bytes,
                  uint8_t flags = ORRERY_QP_CAN_MOVE, uint32_t moves = 0,
                  msg::FlowReport::Kind kind = msg::FlowReport::Kind::kBorn) {
    send(src, {.flows = {{.kind = kind,
                          .tuple = pair_tuple(src, dst, sport),
                          .comm_id = comm_id,
                          .tx_bytes = tx_bytes,
                          .queue_pair = msg::QueuePair{
                              .qpn = qpn, .dest_qpn = 99, .device = "rxe0", .flags = flags, .moves = moves}}}});
  }
  // Source port from `first` on whose hash takes `path`.
  uint16_t port_of(size_t src, size_t dst, const std::vector<std::string>& path, uint16_t first = 49152) const {
    for (uint32_t port = first; port <= 65535; ++port) {
      const auto taken = fabric.ecmp_path(pair_tuple(src, dst, static_cast<uint16_t>(port)));
      if (taken && fabric.path_names(*taken) == path) return static_cast<uint16_t>(port);
    }
    return 0;
  }
  msg::FlowList flow_list() { return ask<msg::FlowList>({msg::Request::Kind::kFlowList}); }
  std::vector<msg::FlowPlan> told(size_t nic) { return agents.last_plan(host(nic)).flows; }
};

}  // namespace

TEST_CASE_METHOD(RoceFixture, "a pair of hosts that both speak RoCE is planned for both protocols, on one path") {
  greet(0);
  greet(4);
  announce_all(7, {0, 4, 8});
  pass(100);
  const auto both = told(0);
  REQUIRE(both.size() == 2);
  CHECK(both[0].protocol == IPPROTO_TCP);
  CHECK(both[1].protocol == IPPROTO_UDP);
  CHECK(both[0].path == both[1].path);
  CHECK(both[0].flow_id == both[1].flow_id);
  CHECK(told(4).size() == 1);  // to a host that does not
  CHECK(driver.applied.back().flows.size() == 4);
  CHECK(plan().flows.size() == 3);  // still one demand of the planner's
}

TEST_CASE_METHOD(RoceFixture, "a host that begins or ceases to speak RoCE changes what the hosts are told") {
  announce_all(7, {0, 4});
  greet(0);
  pass(200);
  CHECK(told(0).size() == 1);
  greet(4);
  pass(200);
  CHECK(told(0).size() == 2);
  CHECK(told(4).size() == 2);
  const size_t plans = driver.applied.size();
  greet(4);
  pass(200);
  CHECK(driver.applied.size() == plans);
  greet(4, false);
  pass(200);
  CHECK(told(0).size() == 1);
}

TEST_CASE_METHOD(RoceFixture, "queue pairs that share a five-tuple are two flows") {
  announce_all(7, {0, 4});
  pass(100);
  queue_pair(0, 4, 50000, 17, 7, kBytes);
  queue_pair(0, 4, 50000, 18, 7, 2 * kBytes);
  CHECK(flow_list().total == 2);
  queue_pair(0, 4, 50000, 17, 7, kBytes, 0, 0, msg::FlowReport::Kind::kGone);
  REQUIRE(flow_list().total == 1);
  CHECK(flow_list().flows[0].queue_pair->qpn == 18);
  CHECK(flow_list().flows[0].tx_bytes == 2 * kBytes);
}

TEST_CASE_METHOD(RoceFixture, "plain queue pairs that share a five-tuple are one load") {
  queue_pair(0, 4, 50000, 17, 0, 64 * kBytes);
  queue_pair(0, 4, 50000, 18, 0, 64 * kBytes);
  pass(100);
  CHECK(plan().flows.size() == 1);
  CHECK_FALSE(has_problem("planning failed"));
}

TEST_CASE_METHOD(
    RoceFixture,
    "where switches hash, a queue pair that can move is planned anew, and one that cannot is planned around") {
  driver.capable.moves_live_flows = false;
  driver.steers_network = false;
  greet(0);
  greet(4);
  announce_all(7, {0, 4});
  pass(100);
  const auto flow = plan().flows.at(0);
  const uint8_t flags = GENERATE(uint8_t{0}, uint8_t{ORRERY_QP_CAN_MOVE});
  queue_pair(0, 4, port_of(0, 4, flow.path), 17, 7, 64 * kBytes, flags);
  CHECK(plan().flows.at(0).on_path == msg::PlannedFlow::OnPath::kYes);
  if (GENERATE(false, true)) a_minute_later({0, 4});
  // The link it uses fails.
  const std::string port = flow.path.at(1);
  core.on_telemetry(
      {.switch_name = port.substr(0, port.find(':')), .at_tai_ns = 1, .links = {{.port = port, .up = false}}}, now);
  pass(100);
  const auto after = plan().flows.at(0);
  CHECK((after.state == msg::PlannedFlow::State::kFixed) == (flags == 0));
  CHECK(std::find(after.path.begin(), after.path.end(), port) == after.path.end());
  CHECK(told(0).at(1).path == after.path);
}

TEST_CASE_METHOD(RoceFixture, "a queue pair that has moved is seen on its new path, and its collectives hit again") {
  driver.capable.moves_live_flows = false;
  driver.steers_network = false;
  greet(0);
  greet(4);
  announce_all(7, {0, 4});
  for (uint64_t i = 0; i < 8; ++i) call(7, 0, 0, ORRERY_OP_BROADCAST, kBytes, i, 0, 1 + i * 100 * kMs);
  pass(100);
  const auto flow = plan().flows.at(0);
  const auto hits = [&] { return jobs().at(0).plan_hits; };
  std::vector<std::string> other;
  for (const auto& path : fabric.paths(fabric.nics()[0], fabric.nics()[4]))
    if (fabric.path_names(path) != flow.path) other = fabric.path_names(path);
  const uint16_t wrong = port_of(0, 4, other), right = port_of(0, 4, flow.path);
  queue_pair(0, 4, wrong, 17, 7, 64 * kBytes);
  CHECK(plan().flows.at(0).on_path == msg::PlannedFlow::OnPath::kNo);
  call(7, 0, 0, ORRERY_OP_BROADCAST, kBytes, 8, 0, 1 + 8 * 100 * kMs);
  CHECK(hits() == 0);
  queue_pair(0, 4, wrong, 17, 7, 64 * kBytes, ORRERY_QP_CAN_MOVE, 0, msg::FlowReport::Kind::kGone);
  queue_pair(0, 4, right, 17, 7, 64 * kBytes, ORRERY_QP_CAN_MOVE, 1);
  CHECK(plan().flows.at(0).on_path == msg::PlannedFlow::OnPath::kYes);
  call(7, 0, 0, ORRERY_OP_BROADCAST, kBytes, 9, 0, 1 + 9 * 100 * kMs);
  CHECK(hits() == 1);
  CHECK(metrics.scrape().find("orrery_daemon_moved_queue_pairs_total 1") != std::string::npos);
  REQUIRE(flow_list().flows.size() == 1);
  CHECK(flow_list().flows[0].queue_pair->moves == 1);
  CHECK(flow_list().flows[0].flow_id == flow.flow_id);
}

TEST_CASE_METHOD(RoceFixture, "an explanation shows the queue pairs, and says which cannot move") {
  announce_all(7, {0, 4});
  pass(100);
  queue_pair(0, 4, 50000, 17, 7, 64 * kBytes, 0);
  const auto id = plan().flows.at(0).flow_id;
  const auto explained = ask<msg::FlowExplanation>({msg::Request::Kind::kFlowExplain, id});
  REQUIRE(explained.live.size() == 1);
  CHECK(explained.live[0].queue_pair->device == "rxe0");
  const auto says = [&](const std::string& words) {
    return std::any_of(explained.reasons.begin(), explained.reasons.end(),
                       [&](const std::string& reason) { return reason.find(words) != std::string::npos; });
  };
  CHECK(says("queue pair 17 on rxe0 cannot change its path while it runs"));
  CHECK_FALSE(says("without the CPU"));
}

TEST_CASE_METHOD(RoceFixture, "a job that may send without the CPU is marked wherever it is shown") {
  announce_all(7, {0, 4});
  pass(100);
  CHECK_FALSE(jobs().at(0).device_traffic);
  send(4, {.communicators = {
               {.comm_id = 7, .rank = 1, .nranks = 2, .process = 1, .address = address(4), .device_traffic = true}}});
  announce(7, 0, 0, 2);  // another rank's heartbeat does not take it back
  CHECK(jobs().at(0).device_traffic);
  CHECK(has_problem("1 jobs may send from the GPU without the CPU"));
  const auto explained = ask<msg::FlowExplanation>({msg::Request::Kind::kFlowExplain, plan().flows.at(0).flow_id});
  CHECK(explained.reasons.back().find("without the CPU") != std::string::npos);
}

TEST_CASE_METHOD(RoceFixture, "a captured collective is planned for, but is no collective that came") {
  announce_all(7, {0, 4, 8});
  pass(100);
  send(0, {.intents = {{.comm_id = 7,
                        .rank = 0,
                        .op = ORRERY_OP_ALL_TO_ALL,
                        .bytes = kBytes,
                        .called_tai_ns = 1,
                        .flags = ORRERY_COLLECTIVE_CAPTURED}}});
  pass(100);
  CHECK(jobs().at(0).collectives == 0);
  CHECK(plan().flows.size() == 6);
}

TEST_CASE_METHOD(RoceFixture, "a plain queue pair restored from the last run is one flow once it is reported") {
  state::SavedState state;
  state.flows = {{3, 0, pair_tuple(0, 4, 50000), {}, kBytes}};
  core.restore(state, now);
  CHECK(flow_list().total == 1);
  queue_pair(0, 4, 50000, 17, 0, 64 * kBytes);
  CHECK(flow_list().total == 1);
}

TEST_CASE_METHOD(RoceFixture, "the host list shows what agents say of RoCE and of the layers in their processes") {
  core.on_agent_hello({.host = host(3), .processes = 2, .features = {"roce"}, .layers = {2, 2, 1, 2, 0}}, now);
  const auto hosts = ask<std::vector<msg::HostState>>({msg::Request::Kind::kHostList});
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const msg::HostState& state) { return state.host == host(3); });
  REQUIRE(found != hosts.end());
  CHECK(found->features == std::vector<std::string>{"roce"});
  CHECK(found->layers == std::vector<uint32_t>{2, 2, 1, 2, 0});
}

TEST_CASE_METHOD(RoceFixture, "a queue pair that found no moment to move for a minute is planned around") {
  driver.capable.moves_live_flows = false;
  driver.steers_network = false;
  greet(0);
  greet(4);
  announce_all(7, {0, 4});
  pass(100);
  const auto flow = plan().flows.at(0);
  std::vector<std::string> other;
  for (const auto& path : fabric.paths(fabric.nics()[0], fabric.nics()[4]))
    if (fabric.path_names(path) != flow.path) other = fabric.path_names(path);
  queue_pair(0, 4, port_of(0, 4, other), 17, 7, 64 * kBytes);
  const auto plan_again = [&](uint64_t sequence) {
    call(7, 0, 0, ORRERY_OP_ALL_REDUCE, kBytes << sequence, sequence);
    pass(100);
    return plan().flows.at(0);
  };
  CHECK(plan_again(0).path == flow.path);
  a_minute_later({0, 4});
  const auto stuck = plan_again(1);
  CHECK(stuck.state == msg::PlannedFlow::State::kFixed);
  CHECK(stuck.path == other);
}
