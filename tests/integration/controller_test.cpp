// A real orrery-controller process and sixteen fake agents over ipc.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "common/abi/ecmp_hash_abi.h"
#include "common/abi/event_abi.h"
#include "common/msg/waveform_messages.h"
#include "controller/fabric/graph.h"
#include "controller/state/store.h"
#include "tests/fakes/controller_process.h"
#include "tests/fakes/fake_wire_agent.h"

using namespace orrery;

namespace {

constexpr int kPatienceMs = 10'000;
constexpr uint32_t kHosts = 16;

struct Cluster {
  msg::Context context;
  fabric::Graph fabric = fabric::Graph::build(*fabric::generate_leaf_spine({}));
  test::ControllerProcess controller;
  std::vector<std::unique_ptr<test::FakeWireAgent>> agents;

  explicit Cluster(std::vector<std::string> arguments = {}, std::vector<std::string> features = {})
      : controller(std::move(arguments)) {
    REQUIRE(controller.ready());
    for (const fabric::Nic& nic : fabric.nics())
      agents.push_back(std::make_unique<test::FakeWireAgent>(context, fabric.node(nic.host).name, controller.intents(),
                                                             controller.agents()));
    for (const auto& agent : agents) agent->features = features;
    REQUIRE(until([this] { return connected(); }));
  }

  // Serves the agents until `done`. False after kPatienceMs.
  bool until(const std::function<bool()>& done) {
    uint64_t hello_ns = 0;
    const uint64_t end_ns = monotonic_now_ns() + uint64_t{kPatienceMs} * 1'000'000;
    while (monotonic_now_ns() < end_ns) {
      const bool greet = monotonic_now_ns() >= hello_ns + 500'000'000;
      if (greet) hello_ns = monotonic_now_ns();
      for (const auto& agent : agents) {
        if (greet) agent->hello();
        agent->serve();
      }
      if (done()) return true;
      ::usleep(200);
    }
    return false;
  }
  void serve_for(int ms) {
    const uint64_t end_ns = monotonic_now_ns() + static_cast<uint64_t>(ms) * 1'000'000;
    until([end_ns] { return monotonic_now_ns() >= end_ns; });
  }

  // Every agent is known and its windows arrive.
  bool connected() {
    for (const auto& agent : agents) agent->publish({});
    const auto hosts = controller.ask(context, {msg::Request::Kind::kHostList});
    if (!hosts) return false;
    const auto& states = std::get<std::vector<msg::HostState>>(*hosts);
    return std::all_of(states.begin(), states.end(),
                       [](const msg::HostState& host) { return host.connected && host.windows > 0; });
  }

  // The hosts of consecutive ranks sit on different leaves.
  size_t host_of(uint32_t rank) const { return rank % 4 * 4 + rank / 4; }
  // `backwards`: the ring goes the other way round, over other pairs.
  void announce(uint64_t comm_id, uint32_t rank, bool backwards = false) {
    const size_t at = host_of(backwards ? kHosts - 1 - rank : rank);
    msg::IntentWindow window;
    window.urgent = true;
    window.communicators = {
        {.comm_id = comm_id, .rank = rank, .nranks = kHosts, .process = 1, .address = fabric.nics()[at].address}};
    agents[at]->publish(window);
  }
  void announce_all(uint64_t comm_id, bool backwards = false) {
    for (uint32_t rank = 0; rank < kHosts; ++rank) announce(comm_id, rank, backwards);
  }
  bool all_have(const std::function<bool(const msg::HostPlan&)>& wanted) {
    return std::all_of(agents.begin(), agents.end(),
                       [&](const auto& agent) { return !agent->plans.empty() && wanted(agent->plans.back()); });
  }
  bool all_have_flows(size_t count) {
    return all_have([count](const msg::HostPlan& plan) { return plan.flows.size() == count; });
  }
  msg::PlanList plan_list() {
    return std::get<msg::PlanList>(*controller.ask(context, {msg::Request::Kind::kPlanList}));
  }

  // How many of each agent's windows the controller has not taken in; some never come, because they were published
  // before the sockets were connected.
  std::map<std::string, uint64_t> not_heard() {
    std::map<std::string, uint64_t> windows;
    const auto answer = controller.ask(context, {msg::Request::Kind::kHostList});
    if (!answer) return windows;
    for (const auto& agent : agents) windows[agent->host()] = agent->published();
    for (const msg::HostState& host : std::get<std::vector<msg::HostState>>(*answer))
      windows[host.host] -= host.windows + host.windows_lost;
    return windows;
  }

  // What the controller would find if it were killed now. Its file is held exclusively, so a copy is read.
  state::SavedState saved() const {
    const test::ScratchDirectory copy;
    std::error_code not_there;
    for (const std::string file : {"state.db", "state.db-wal"})
      std::filesystem::copy_file(controller.file(file), copy.file(file), not_there);
    return state::Store::open(copy.file("state.db"))->loaded();
  }

  // What the preload would do at connect: a source port that wins every hop.
  FiveTuple connect(const msg::FlowPlan& flow, uint16_t dst_port) const {
    for (uint32_t port = flow.src_port_first; port <= flow.src_port_last; ++port) {
      const FiveTuple tuple{flow.src, flow.dst, static_cast<uint16_t>(port), dst_port, flow.protocol};
      const bool wins = std::all_of(flow.hops.begin(), flow.hops.end(), [&](const msg::HashHop& hop) {
        return orrery_ecmp_member(orrery_ecmp_hash(hop.seed, *tuple.src.v4(), *tuple.dst.v4(), tuple.src_port,
                                                   tuple.dst_port, tuple.protocol),
                                  hop.group_size) == hop.member;
      });
      if (wins) return tuple;
    }
    return {flow.src, flow.dst, 50000, dst_port, flow.protocol};
  }
};

}  // namespace

TEST_CASE("sixteen ranks announced make sixteen host plans that load no link more than the optimum") {
  Cluster cluster;
  for (uint32_t rank = 0; rank + 1 < kHosts; ++rank) cluster.announce(7, rank);
  cluster.serve_for(200);
  for (const auto& agent : cluster.agents) CHECK(agent->plans.empty());
  const uint64_t announced_ns = monotonic_now_ns();
  cluster.announce(7, kHosts - 1);
  REQUIRE(cluster.until([&] { return cluster.all_have_flows(1); }));
  uint64_t last_ns = 0;
  for (const auto& agent : cluster.agents) last_ns = std::max(last_ns, agent->last_plan_ns);
  fmt::print("last announcement to last of 16 host plans: {:.2f} ms\n",
             static_cast<double>(last_ns - announced_ns) / 1e6);

  std::map<std::string, int> load;
  for (uint32_t rank = 0; rank < kHosts; ++rank) {
    const msg::FlowPlan& flow = cluster.agents[cluster.host_of(rank)]->plans.back().flows.front();
    CHECK(flow.comm_id == 7);
    CHECK(flow.src == cluster.fabric.nics()[cluster.host_of(rank)].address);
    CHECK(flow.dst == cluster.fabric.nics()[cluster.host_of((rank + 1) % kHosts)].address);
    CHECK(cluster.fabric.path_names(*cluster.fabric.ecmp_path(cluster.connect(flow, 5000))) == flow.path);
    for (const std::string& link : flow.path) ++load[link];
  }
  for (const auto& [link, flows] : load) CHECK(flows == 1);
  const msg::PlanList list = cluster.plan_list();
  CHECK(list.flows.size() == kHosts);
  CHECK(list.method == "edge-colouring");
  CHECK(list.max_load_bytes == list.lower_bound_bytes);
}

TEST_CASE("a host that refuses brings the plan before back to all, under a newer revision") {
  Cluster cluster;
  cluster.announce_all(7);
  REQUIRE(cluster.until([&] { return cluster.all_have_flows(1); }));
  const uint64_t first = cluster.agents[0]->plans.back().revision;
  uint64_t second = 0;
  cluster.agents[3]->refuses = [&second](const msg::HostPlan& plan) {  // the first plan of two flows, once
    const bool refuse = second == 0 && plan.flows.size() == 2;
    if (refuse) second = plan.revision;
    return refuse;
  };
  cluster.announce_all(8, true);
  REQUIRE(cluster.until([&] {
    return second != 0 && cluster.all_have([&](const msg::HostPlan& plan) {
      return plan.flows.size() == 1 && plan.revision > second;
    });
  }));
  CHECK(first < second);
  const auto problems = cluster.controller.health(cluster.context).problems;
  CHECK(std::any_of(problems.begin(), problems.end(),
                    [](const std::string& text) { return text.find("refused it: no room") != std::string::npos; }));
  // It is tried again by itself, and then nobody refuses.
  CHECK(cluster.until([&] { return cluster.all_have_flows(2); }));
}

TEST_CASE("a storm of malformed messages, unknown hosts and lies costs nothing but their own senders") {
  Cluster cluster;
  test::FakeWireAgent stranger(cluster.context, "h99", cluster.controller.intents(), cluster.controller.agents());
  const std::string window = *msg::encode(
      msg::IntentWindow{.host = "h1", .sequence = 1, .length_ns = 1, .intents = std::vector<msg::Intent>(20)});
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string spoilt = window;
    for (int flips = 0; flips < 1 + i % 32; ++flips) spoilt[random() % spoilt.size()] = static_cast<char>(random());
    stranger.publish_raw(spoilt);
    stranger.send_raw(spoilt.substr(0, random() % spoilt.size()));
    if (i % 100 == 0) stranger.hello();
  }
  msg::IntentWindow lie;  // another host's address
  lie.communicators = {{.comm_id = 9, .rank = 0, .nranks = 1, .address = cluster.fabric.nics()[5].address}};
  cluster.agents[0]->publish(lie);
  REQUIRE(cluster.until([&] {
    stranger.serve();
    stranger.hello();
    return !stranger.refusals.empty();
  }));
  CHECK(stranger.refusals.front().find("topology file") != std::string::npos);
  CHECK(cluster.controller.alive());
  const auto jobs = cluster.controller.ask(cluster.context, {msg::Request::Kind::kJobList});
  CHECK(std::get<std::vector<msg::JobState>>(*jobs).empty());
  cluster.announce_all(7);
  CHECK(cluster.until([&] { return cluster.all_have_flows(1); }));
}

TEST_CASE(
    "killed and started again, the controller sends the same plan under a higher term without being told anything") {
  Cluster cluster;
  cluster.announce_all(7);
  REQUIRE(cluster.until([&] { return cluster.all_have_flows(1); }));
  std::map<std::string, std::vector<std::string>> paths;
  for (const auto& agent : cluster.agents) paths[agent->host()] = agent->plans.back().flows.front().path;
  const uint64_t term = cluster.agents[0]->plans.back().term;
  // The plan is written after it is acknowledged.
  REQUIRE(cluster.until([&] { return cluster.saved().flows.size() == kHosts; }));
  cluster.controller.end(SIGKILL);
  REQUIRE(cluster.controller.start());
  REQUIRE(cluster.until([&] {
    return cluster.all_have([&](const msg::HostPlan& plan) { return plan.term > term && plan.flows.size() == 1; });
  }));
  for (const auto& agent : cluster.agents) CHECK(agent->plans.back().flows.front().path == paths[agent->host()]);
}

TEST_CASE("collectives that come as forecast over planned paths count as plan hits") {
  Cluster cluster;
  cluster.announce_all(7);
  REQUIRE(cluster.until([&] { return cluster.all_have_flows(1); }));
  for (const auto& agent : cluster.agents) {
    msg::IntentWindow window;
    window.flows = {{.kind = msg::FlowReport::Kind::kBorn,
                     .tuple = cluster.connect(agent->plans.back().flows.front(), 5000),
                     .comm_id = 7,
                     .process = 1,
                     .tx_bytes = 1 << 20}};
    agent->publish(window);
  }
  REQUIRE(cluster.until([&] {
    const auto list = cluster.plan_list();
    return std::all_of(list.flows.begin(), list.flows.end(),
                       [](const msg::PlannedFlow& flow) { return flow.on_path == msg::PlannedFlow::OnPath::kYes; });
  }));
  const uint64_t begin_ns = tai_now_ns();
  for (uint64_t round = 0; round < 40; ++round) {
    msg::IntentWindow window;
    window.intents = {{.comm_id = 7,
                       .process = 1,
                       .rank = 0,
                       .op = ORRERY_OP_ALL_REDUCE,
                       .bytes = 1 << 20,
                       .called_tai_ns = begin_ns + round * 20'000'000,
                       .sequence = round}};
    cluster.agents[cluster.host_of(0)]->publish(window);
  }
  const auto judged = [&] {
    const msg::Health health = cluster.controller.health(cluster.context);
    return health.plan_hits + health.plan_misses >= 30;
  };
  REQUIRE(cluster.until(judged));
  const msg::Health health = cluster.controller.health(cluster.context);
  CHECK(health.plan_hits >= 30);
  CHECK(health.plan_misses <= 2);
}

TEST_CASE("a collective that several ranks tell of counts once, whoever is first") {
  Cluster cluster;
  cluster.announce_all(7);
  REQUIRE(cluster.until([&] { return cluster.all_have_flows(1); }));
  const auto never_heard = cluster.not_heard();  // all that can come has, or there were no plan
  const uint64_t begin_ns = tai_now_ns();
  const auto tell = [&](uint32_t rank, uint64_t round) {
    msg::IntentWindow window;
    window.intents = {{.comm_id = 7,
                       .process = 1,
                       .rank = rank,
                       .op = ORRERY_OP_ALL_REDUCE,
                       .bytes = 1 << 20,
                       .called_tai_ns = begin_ns + round * 20'000'000 + rank * 1000,
                       .sequence = round}};
    cluster.agents[cluster.host_of(rank)]->publish(window);
    // Windows of different hosts overtake each other.
    REQUIRE(cluster.until([&] { return cluster.not_heard() == never_heard; }));
  };
  for (uint64_t round = 0; round < 10; ++round)
    for (const uint32_t rank : {9u, 4u, 0u, 6u}) tell(rank, round);
  const auto jobs =
      std::get<std::vector<msg::JobState>>(*cluster.controller.ask(cluster.context, {msg::Request::Kind::kJobList}));
  REQUIRE(jobs.size() == 1);
  CHECK(jobs.front().collectives == 10);
}

TEST_CASE("SIGTERM ends the controller cleanly and at once") {
  Cluster cluster;
  const int status = cluster.controller.end(SIGTERM);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("hosts that speak RoCE get an entry for queue pairs that leads the planned way, and moves are followed") {
  Cluster cluster({}, {"roce"});
  cluster.announce_all(7);
  REQUIRE(cluster.until([&] { return cluster.all_have_flows(2); }));
  const msg::HostPlan plan = cluster.agents[0]->plans.back();
  const msg::FlowPlan& roce = plan.flows.at(1);
  CHECK(plan.flows.at(0).protocol == 6);
  REQUIRE(roce.protocol == 17);
  CHECK(roce.src_port_first == 49152);
  const FiveTuple planned = cluster.connect(roce, 4791);
  CHECK(cluster.fabric.path_names(*cluster.fabric.ecmp_path(planned)) == roce.path);

  FiveTuple elsewhere = planned;
  while (cluster.fabric.ecmp_path(elsewhere) == cluster.fabric.ecmp_path(planned)) ++elsewhere.src_port;
  const auto report = [&](msg::FlowReport::Kind kind, const FiveTuple& tuple, uint32_t moves) {
    cluster.agents[0]->publish(
        {.flows = {{.kind = kind,
                    .tuple = tuple,
                    .comm_id = 7,
                    .tx_bytes = 1 << 24,
                    .queue_pair = msg::QueuePair{
                        .qpn = 17, .dest_qpn = 18, .device = "rxe0", .flags = ORRERY_QP_CAN_MOVE, .moves = moves}}}});
  };
  const auto on_path = [&](msg::PlannedFlow::OnPath wanted) {
    return cluster.until([&] {
      const auto answer = cluster.controller.ask(cluster.context, {msg::Request::Kind::kFlowList});
      const auto& flows = std::get<msg::FlowList>(*answer).flows;
      return flows.size() == 1 && flows[0].flow_id == roce.flow_id && flows[0].on_path == wanted;
    });
  };
  report(msg::FlowReport::Kind::kBorn, elsewhere, 0);
  CHECK(on_path(msg::PlannedFlow::OnPath::kNo));
  report(msg::FlowReport::Kind::kGone, elsewhere, 0);
  report(msg::FlowReport::Kind::kBorn, planned, 1);
  CHECK(on_path(msg::PlannedFlow::OnPath::kYes));
}

TEST_CASE("a prediction stands beside live traffic; a damaged one is told, and neither training nor the old one mind") {
  test::ScratchDirectory scratch;
  const std::string file = scratch.file("waves.bin");
  const auto write = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };
  const fabric::Graph fabric = fabric::Graph::build(*fabric::generate_leaf_spine({}));
  msg::Waveforms waves{.topology = fabric.name(), .fingerprint = fabric.fingerprint(), .title = "a ring", .bin_ns = 1};
  waves.jobs = {{"train", 2, 500'000'000}};
  for (const fabric::Nic& nic : fabric.nics())
    waves.nics.push_back({fabric.node(nic.host).name, nic.name, {1}, {{0, 1'000'000}}});
  const std::string good = *msg::encode(waves);
  write(good);
  Cluster cluster({"--forecast.waveforms_file", file});
  const auto forecasts = [&] {
    return std::get<msg::NicForecasts>(*cluster.controller.ask(cluster.context, {msg::Request::Kind::kNicForecasts}));
  };
  REQUIRE(forecasts().nics.size() == kHosts);
  CHECK(forecasts().same_fabric);
  cluster.announce_all(7);
  REQUIRE(cluster.until([&] { return cluster.all_have_flows(1); }));
  CHECK(cluster.plan_list().flows.front().bytes_per_round == 1'000'000);

  const FiveTuple tuple = cluster.connect(cluster.agents[0]->plans.back().flows.front(), 5000);
  uint64_t sent = 0, next_ns = 0;
  REQUIRE(cluster.until([&] {  // 16 Mbit/s
    if (monotonic_now_ns() < next_ns) return false;
    next_ns = monotonic_now_ns() + 100'000'000;
    cluster.agents[0]->publish(
        {.flows = {
             {.kind = msg::FlowReport::Kind::kProgress, .tuple = tuple, .comm_id = 7, .tx_bytes = sent += 200'000}}});
    return forecasts().nics.front().observed_bps > 0;
  }));
  CHECK(forecasts().nics.front().predicted_bps == 16'000'000);

  const auto has_problem = [&] {
    const auto problems = cluster.controller.health(cluster.context).problems;
    return std::any_of(problems.begin(), problems.end(), [&](const std::string& text) {
      return text.find(file + ": damaged, cut off or no waveforms file") != std::string::npos;
    });
  };
  CHECK_FALSE(has_problem());
  write(good.substr(0, good.size() / 2));
  cluster.controller.signal(SIGHUP);
  REQUIRE(cluster.until(has_problem));
  CHECK(forecasts().nics.size() == kHosts);
  cluster.announce_all(8, true);
  CHECK(cluster.until([&] { return cluster.all_have_flows(2); }));
  write(good);
  cluster.controller.signal(SIGHUP);
  CHECK(cluster.until([&] { return !has_problem(); }));
}
