#include "tools/sim/workload/jobs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/sim/fixtures.h"
#include "tools/sim/model/lowering.h"

namespace orrery::sim {
namespace {

Job training(std::vector<uint32_t> hosts) {
  Job job;
  job.name = "train";
  job.hosts = std::move(hosts);
  job.iterations = 3;
  job.start = 5 * kPerUs;
  job.steps = {{.compute = 100 * kPerUs, .collective = Collective{.op = Op::kAllReduce, .bytes = 400'000}}};
  return job;
}

std::vector<RoundTimes> run(const Traffic& traffic, const fabric::Graph& graph) {
  std::vector<FlowRoute> routes;
  for (const Flow& flow : traffic.flows) {
    FlowRoute route;
    route.qps.push_back({{graph.paths(graph.nics()[flow.src], graph.nics()[flow.dst])[0]}, PathPolicy::kStatic});
    routes.push_back(route);
  }
  return round_times(traffic, run_packets(graph, lower(traffic, routes, graph).value(), plain_config()).step_done_at);
}

Traffic built(const Job& job) {
  Traffic traffic;
  REQUIRE(add_job(traffic, job));
  return traffic;
}

}  // namespace

TEST_CASE("iterations follow each other from the start time on") {
  const auto graph = leaf_spine(1, 1, 4);
  const auto rounds = run(built(training({0, 1, 2, 3})), graph);
  REQUIRE(rounds.size() == 3);
  CHECK(rounds[0].begin == 5 * kPerUs);
  for (size_t i = 0; i < rounds.size(); ++i) {
    CHECK(rounds[i].end > rounds[i].begin + 100 * kPerUs);
    if (i > 0) CHECK(rounds[i].begin <= rounds[i - 1].end);
    if (i > 0) CHECK(rounds[i].begin > rounds[i - 1].begin + 100 * kPerUs);
  }
}

TEST_CASE("an overlapped collective hides behind the computation that follows, an exposed one does not") {
  const auto graph = leaf_spine(1, 1, 4);
  Job job = training({0, 1, 2, 3});
  job.iterations = 1;
  job.steps.push_back({.compute = 10 * kPerMs});
  const auto exposed = run(built(job), graph)[0];
  job.steps[0].overlapped = true;
  const auto overlapped = run(built(job), graph)[0];
  CHECK(overlapped.end - overlapped.begin == 10 * kPerMs + 100 * kPerUs);
  CHECK(exposed.end - exposed.begin > 10 * kPerMs + 100 * kPerUs + 6 * kPerUs * 10);
}

TEST_CASE("jitter changes computations by seed, and the same seed gives the same traffic") {
  Job job = training({0, 1, 2, 3});
  job.jitter = 0.1;
  const auto delays = [&](uint64_t seed) {
    job.seed = seed;
    std::vector<Time> times;
    for (const Task& task : built(job).tasks) times.push_back(task.delay);
    return times;
  };
  CHECK(delays(1) == delays(1));
  CHECK(delays(1) != delays(2));
  const auto computes = delays(1);
  CHECK(std::count_if(computes.begin(), computes.end(), [](Time t) { return t > 50 * kPerUs && t < 150 * kPerUs; }) ==
        4 * 3);
}

TEST_CASE("groups divide the ranks of a job: neighbours, and those a stride apart") {
  Job job = training({0, 1});
  job.ranks_per_host = 4;
  job.iterations = 1;
  const Collective collective{.op = Op::kAllReduce, .bytes = 1'000'000};
  job.steps = {{.collective = collective, .group = {4, 1}}};
  CHECK(built(job).flows.empty());  // each group within a host
  job.steps = {{.collective = collective, .group = {2, 4}}};
  CHECK(built(job).flows.size() == 2 * 4);  // four pairs across the hosts
}

TEST_CASE("phases are given where nothing overlaps, one per group and algorithm") {
  Job job = training({0, 1, 2, 3});
  job.iterations = 2;
  job.steps.push_back({.collective = Collective{.op = Op::kAllToAll, .bytes = 4'000}});
  job.steps.push_back({.collective = Collective{.op = Op::kAllGather, .bytes = 4'000}});
  std::set<uint32_t> phases;
  for (const Flow& flow : built(job).flows) phases.insert(flow.phase);
  CHECK(phases == std::set<uint32_t>{0, 1, 2, 3});  // the ring of both, and three rounds
  CHECK(built(job).flows.size() == 4 + 12);
  job.steps[0].overlapped = true;
  for (const Flow& flow : built(job).flows) CHECK(flow.phase == 0);
}

TEST_CASE("setup steps run once and in no round") {
  Job job = training({0, 1, 2, 3});
  job.setup = {{.compute = kPerMs, .collective = Collective{.op = Op::kBroadcast, .bytes = 4'000}}};
  const Traffic traffic = built(job);
  CHECK(traffic.rounds.size() == 3);
  CHECK(run(traffic, leaf_spine(1, 1, 4))[0].begin > kPerMs);
}

TEST_CASE("the tasks of a job are announced before it is built, and no fewer than it takes") {
  Job job = training({0, 1, 2, 3, 4, 5, 6, 7});
  job.options.round_width = GENERATE(1u, 3u);
  const auto op = GENERATE(Op::kAllReduce, Op::kAllToAll, Op::kBroadcast, Op::kSendRecv);
  job.steps.push_back({.collective = Collective{.op = op, .bytes = 4'000}, .group = {4, 2}, .overlapped = true});
  const size_t tasks = built(job).tasks.size();
  CAPTURE(name_of(op), tasks);
  CHECK(tasks_of(job) >= tasks);
  CHECK(tasks_of(job) <= 2 * tasks);
  job.iterations = UINT32_MAX;
  job.hosts.assign(100'000, 0);
  job.steps.assign(1'000, {.collective = Collective{.op = Op::kAllToAll, .bytes = 1}});
  CHECK(tasks_of(job) == 1'000'000'000'000'000);
}

TEST_CASE("the size of a job is no less than what it takes, and less than three times that") {
  struct Case {
    Op op;
    Algorithm algorithm;
  };
  const Case c = GENERATE(Case{Op::kAllReduce, Algorithm::kRing}, Case{Op::kAllReduce, Algorithm::kTree},
                          Case{Op::kAllReduce, Algorithm::kHalvingDoubling}, Case{Op::kAllGather, Algorithm::kPat},
                          Case{Op::kReduceScatter, Algorithm::kRing}, Case{Op::kBroadcast, Algorithm::kRing},
                          Case{Op::kReduce, Algorithm::kRing}, Case{Op::kAllToAll, Algorithm::kPairwise},
                          Case{Op::kAllToAll, Algorithm::kHierarchical}, Case{Op::kSendRecv, Algorithm::kDirect});
  Job job;
  job.name = "job";
  job.ranks_per_host = GENERATE(1u, 4u);
  job.iterations = 5;
  for (uint32_t host = 0; host < 16; ++host) job.hosts.push_back(host);
  job.options.channels = GENERATE(1u, 2u);
  job.steps = {
      {.compute = kPerMs, .collective = Collective{.op = c.op, .algorithm = c.algorithm, .bytes = 16'000'000}}};
  const Traffic traffic = built(job);
  const JobSize size = size_of(job);
  const auto about = [](double most, size_t real) { return most >= double(real) && most <= 3.0 * double(real) + 100; };
  CAPTURE(name_of(c.op), name_of(c.algorithm), job.ranks_per_host, job.options.channels, size.tasks, size.transfers,
          size.edges, size.flows, traffic.tasks.size(), traffic.transfers.size(), traffic.flows.size());
  const size_t edges = traffic.after_task.size() + traffic.after_delivered.size() + traffic.after_acknowledged.size();
  CAPTURE(edges);
  CHECK(size.tasks >= double(traffic.tasks.size()));
  CHECK(size.edges >= double(edges));
  CHECK(size.transfers >= double(traffic.transfers.size()));
  CHECK(size.flows >= double(traffic.flows.size()));
  if (job.ranks_per_host > 1 && c.algorithm != Algorithm::kRing && c.algorithm != Algorithm::kPairwise) return;
  CHECK(about(size.tasks, traffic.tasks.size()));
  CHECK(about(size.edges, edges));
  CHECK(about(size.transfers, traffic.transfers.size()));
  CHECK(about(size.flows, traffic.flows.size()));
}

TEST_CASE("many jobs share one traffic, and a job with a mistake leaves none of itself") {
  Traffic traffic;
  REQUIRE(add_job(traffic, training({0, 1})).value() == 0);
  REQUIRE(add_job(traffic, training({2, 3})).value() == 1);
  const size_t tasks = traffic.tasks.size(), flows = traffic.flows.size();
  Job wrong = training({0, 1, 2});
  wrong.steps.push_back({.collective = Collective{.op = Op::kAllToAll, .algorithm = Algorithm::kRing}});
  CHECK(add_job(traffic, wrong).error().message ==
        "job train: step 2: all_to_all by ring: no such algorithm for it; take pairwise or hierarchical");
  CHECK(traffic.tasks.size() == tasks);
  CHECK(traffic.flows.size() == flows);
  CHECK(traffic.jobs.size() == 2);
  wrong = training({0, 1, 2});
  wrong.steps[0].group = {2, 1};
  CHECK(add_job(traffic, wrong).error().message ==
        "job train: step 1: groups of 2 ranks, 1 apart, do not divide 3 ranks");
  CHECK(check(traffic, 4));
}

TEST_CASE("placements take each host once, by leaf, across leaves, or at random") {
  const auto graph = leaf_spine(4, 2, 16);
  const auto leaf = [&](uint32_t host) { return graph.link(graph.nics()[host].uplink).to; };
  const auto leaves = [&](const std::vector<uint32_t>& hosts) {
    std::set<fabric::NodeId> used;
    for (const uint32_t host : hosts) used.insert(leaf(host));
    return used.size();
  };
  const auto contiguous = place(graph, {4, 4, 8}, Placement::kContiguous, 1).value();
  CHECK(leaves(contiguous[0]) == 1);
  CHECK(leaves(contiguous[2]) == 2);
  const auto fragmented = place(graph, {4, 12}, Placement::kFragmented, 1).value();
  CHECK(leaves(fragmented[0]) == 4);
  const auto random = place(graph, {8, 8}, Placement::kRandom, 1).value();
  std::set<uint32_t> all(random[0].begin(), random[0].end());
  all.insert(random[1].begin(), random[1].end());
  CHECK(all.size() == 16);
  CHECK(place(graph, {8, 8}, Placement::kRandom, 1).value() == random);
  CHECK(place(graph, {8, 8}, Placement::kRandom, 2).value() != random);
  CHECK(place(graph, {8, 9}, Placement::kRandom, 1).error().message ==
        "the jobs need 17 hosts and the fabric has 16: take a larger fabric or fewer hosts");
}

}  // namespace orrery::sim
