#include "tools/sim/model/traffic.h"

#include <catch2/catch.hpp>

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/model/lowering.h"

namespace orrery::sim {
namespace {

// Host 0 sends to host 2, which computes and sends back.
Traffic ping_pong() {
  Traffic traffic;
  traffic.jobs = {"job"};
  const uint32_t there = traffic.add_flow({.job = 0, .src = 0, .dst = 2}),
                 back = traffic.add_flow({.job = 0, .src = 2, .dst = 0});
  const uint32_t ping = traffic.add_transfer(there, 8'000), pong = traffic.add_transfer(back, 4'000);
  const uint32_t begin = traffic.add_send(ping, 5, true), think = traffic.add_computation(2, 7'000);
  const uint32_t answer = traffic.add_send(pong), end = traffic.add_computation(0, 0);
  traffic.after_delivered = {{ping, think}, {pong, end}};
  traffic.after_task = {{think, answer}};
  traffic.rounds = {{.job = 0, .opening = {begin}, .closing = {end}}};
  return traffic;
}

std::vector<FlowRoute> first_paths(const Traffic& traffic, const fabric::Graph& graph, uint32_t qps = 1) {
  std::vector<FlowRoute> routes;
  for (const Flow& flow : traffic.flows) {
    const auto paths = graph.paths(graph.nics()[flow.src], graph.nics()[flow.dst]);
    FlowRoute route;
    for (uint32_t k = 0; k < qps; ++k) route.qps.push_back({{paths[k % paths.size()]}, PathPolicy::kStatic});
    routes.push_back(route);
  }
  return routes;
}

}  // namespace

TEST_CASE("traffic with routes runs, and its rounds can be read off") {
  const auto graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ping_pong();
  const Program program = lower(traffic, first_paths(traffic, graph), graph).value();
  const RunResult result = run_packets(graph, program, plain_config());
  const auto times = round_times(traffic, result.step_done_at);
  REQUIRE(times.size() == 1);
  CHECK(times[0].begin == 5);
  const Time way = 4 * (kPerUs + kFullPacket);
  CHECK(times[0].end == 5 + (way + kFullPacket) + 7'000 + way);
}

TEST_CASE("queue pairs share every transfer, and a transfer is there when all its parts are") {
  const auto graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ping_pong();
  const Program program = lower(traffic, first_paths(traffic, graph, 3), graph).value();
  CHECK(program.qps.size() == 6);
  CHECK(program.messages[0].bytes + program.messages[1].bytes + program.messages[2].bytes == 8'000);
  const RunResult result = run_packets(graph, program, plain_config());
  CHECK(result.totals.delivered_messages == 6);
  const Time ping = std::max({result.delivered_at[0], result.delivered_at[1], result.delivered_at[2]});
  CHECK(result.step_done_at[1] == ping + 7'000);
}

TEST_CASE("a release offset and the clock's error move the first transfer of a collective only") {
  const auto graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ping_pong();
  auto routes = first_paths(traffic, graph);
  for (FlowRoute& route : routes) route.release_offset = 1'000;
  LoweringOptions options;
  for (const auto& [error, expected] :
       {std::pair{int64_t{0}, Time{1'005}}, {int64_t{300}, Time{1'305}}, {int64_t{-5'000}, Time{5}}}) {
    options.clock_error_ps.assign(4, error);
    const Program program = lower(traffic, routes, graph, options).value();
    CHECK(program.steps[0].delay == expected);
    CHECK(program.steps[2].delay == 0);
  }
}

TEST_CASE("faulty traffic is refused with the place of the fault") {
  Traffic traffic = ping_pong();
  const auto refusal = [&] { return check(traffic, 4).error().message; };
  REQUIRE(check(traffic, 4));
  SECTION("a host that is not there") {
    CHECK_FALSE(check(traffic, 2));
  }
  SECTION("a flow to itself") {
    traffic.flows[0].dst = 0;
    CHECK(refusal().find("flow 0 goes from host 0 to host 0") != std::string::npos);
  }
  SECTION("a transfer that nobody starts") {
    traffic.add_transfer(0, 1);
    CHECK(refusal() == "traffic: no task starts transfer 2");
  }
  SECTION("a transfer started twice") {
    traffic.add_send(0);
    CHECK(refusal().find("started twice") != std::string::npos);
  }
  SECTION("a wait across hosts") {
    traffic.after_task.push_back({0, 1});
    CHECK(refusal().find("only a transfer leads to another host") != std::string::npos);
  }
  SECTION("a circle") {
    traffic.after_task.push_back({3, 0});
    CHECK(refusal().find("waits for itself") != std::string::npos);
  }
  SECTION("a round of unknown tasks") {
    traffic.rounds[0].closing.push_back(99);
    CHECK(refusal().find("a round names task 99") != std::string::npos);
  }
  SECTION("a flow without a route") {
    const auto graph = leaf_spine(2, 2, 4);
    CHECK(lower(traffic, {}, graph).error().message.find("flow 0 from h1 to h3 has no route") != std::string::npos);
  }
}

}  // namespace orrery::sim
