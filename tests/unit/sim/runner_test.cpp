#include "tools/sim/runner/runner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <new>

#include "tests/unit/sim/studies.h"
#include "tools/sim/workload/jobs.h"

namespace orrery::sim {
namespace {

Traffic ring(const fabric::Graph& graph, uint32_t ranks, uint64_t bytes, uint32_t rounds) {
  Job job;
  job.name = "ring";
  job.hosts = place(graph, {ranks}, Placement::kFragmented, 1).value()[0];
  job.iterations = rounds;
  job.steps = {{.compute = 10 * kPerUs, .collective = Collective{.op = Op::kAllReduce, .bytes = bytes}}};
  Traffic traffic;
  add_job(traffic, job).value();
  return traffic;
}

// Three seeds of what hashes and of what plans.
Study both_ways(const fabric::Graph& graph, const Traffic& traffic) {
  return study_of(graph, traffic, {Scheme::kEcmp, Scheme::kOrreryPaths}, {1, 2, 3});
}

}  // namespace

TEST_CASE("a planned ring runs as on a fabric that never blocks, a hashed one does not") {
  const fabric::Graph graph = leaf_spine(4, 4, 16);
  const Traffic traffic = ring(graph, 16, 4'000'000, 2);
  const StudyResult result = run_study(both_ways(graph, traffic)).value();
  REQUIRE(result.summaries.size() == 2);
  REQUIRE(result.runs.size() == 6);
  const Summary& ecmp = result.summaries[0];
  const Summary& orrery = result.summaries[1];
  CHECK(ecmp.iterations == 6);
  CHECK(result.runs[0].job_times_ms == std::vector<std::vector<double>>{result.runs[0].times_ms});
  CHECK(ecmp.unfinished == 0);
  CHECK(orrery.slowdown < 1.05);
  CHECK(ecmp.slowdown > 1.3);
  CHECK(orrery.plan_gap == 0);
  CHECK(orrery.planned);
  CHECK_FALSE(ecmp.planned);
  CHECK(orrery.core_spread == Approx(1).margin(0.01));
  CHECK(ecmp.core_spread > 1.5);
  CHECK(ecmp.worst_ms >= ecmp.p99_ms);
  CHECK(ecmp.p99_ms >= ecmp.p50_ms);
}

TEST_CASE("the ideal is the fabric with a core a hundred times as fast, and hosts as they are") {
  const fabric::Graph graph = leaf_spine(2, 2, 4);
  const fabric::Graph fast = non_blocking(graph);
  for (fabric::LinkId link = 0; link < graph.links().size(); ++link) {
    const bool core = graph.node(graph.link(link).from).kind == fabric::NodeKind::kSwitch &&
                      graph.node(graph.link(link).to).kind == fabric::NodeKind::kSwitch;
    CHECK(fast.link(link).rate_bps == graph.link(link).rate_bps * (core ? 100 : 1));
  }
}

TEST_CASE("what is done and what is to come is told before each run") {
  const fabric::Graph graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ring(graph, 4, 100'000, 1);
  Study study = both_ways(graph, traffic);
  std::vector<std::string> told;
  study.on_start = [&](const RunStart& start) {
    CHECK(start.done == told.size());
    CHECK(start.total == 7);
    CHECK(start.data_hops > 0);
    told.push_back(start.what);
  };
  REQUIRE(run_study(study));
  CHECK(told == std::vector<std::string>{"ideal", "ecmp, seed 1", "ecmp, seed 2", "ecmp, seed 3",
                                         "orrery-paths, seed 1", "orrery-paths, seed 2", "orrery-paths, seed 3"});
}

TEST_CASE("what an earlier study knows is not run again, and the first seed of a scheme is recorded") {
  const fabric::Graph graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ring(graph, 4, 100'000, 1);
  Study study = both_ways(graph, traffic);
  const StudyResult whole = run_study(study).value();
  study.known = [&](Scheme scheme, uint64_t seed, bool ideal) -> std::optional<Run> {
    if (ideal) return whole.ideal;
    if (scheme == Scheme::kEcmp && seed < 3) return whole.runs[seed - 1];
    return std::nullopt;
  };
  std::vector<std::string> run;
  std::vector<size_t> steps;
  study.record = true;
  study.on_start = [&](const RunStart& start) {
    CHECK(start.known == 3);
    run.push_back(start.what);
  };
  study.on_run = [&](const Observation& o) { CHECK(o.result.waveforms.empty() == (o.run.seed != 1)); };
  study.on_step = [&](const StudyResult& result) -> Status {
    steps.push_back(result.done());
    return {};
  };
  const StudyResult again = run_study(study).value();
  CHECK(run == std::vector<std::string>{"ecmp, seed 3", "orrery-paths, seed 1", "orrery-paths, seed 2",
                                        "orrery-paths, seed 3"});
  CHECK(steps == std::vector<size_t>{4, 5, 6, 7});
  REQUIRE(again.summaries.size() == whole.summaries.size());
  for (size_t i = 0; i < whole.summaries.size(); ++i) CHECK(again.summaries[i].mean_ms == whole.summaries[i].mean_ms);
  // What is known lies on both sides of what is not.
  study.known = [&](Scheme scheme, uint64_t seed, bool ideal) -> std::optional<Run> {
    if (ideal) return std::nullopt;
    if (scheme == Scheme::kEcmp) return seed != 2 ? std::optional(whole.runs[seed - 1]) : std::nullopt;
    return whole.runs[2 + seed];
  };
  study.on_start = {};
  steps.clear();
  const StudyResult mended = run_study(study).value();
  CHECK(steps == std::vector<size_t>{6, 7});
  REQUIRE(mended.runs.size() == whole.runs.size());
  for (size_t i = 0; i < whole.runs.size(); ++i) CHECK(mended.runs[i].times_ms == whole.runs[i].times_ms);
  REQUIRE(mended.summaries.size() == whole.summaries.size());
  for (size_t i = 0; i < whole.summaries.size(); ++i) {
    CHECK(mended.summaries[i].scheme == whole.summaries[i].scheme);
    CHECK(mended.summaries[i].mean_ms == whole.summaries[i].mean_ms);
    CHECK(mended.summaries[i].slowdown == whole.summaries[i].slowdown);
  }
  study.on_step = [](const StudyResult&) -> Status { return Error{ErrorCode::kSystem, "the disk is full"}; };
  CHECK(run_study(study).error().message == "the disk is full");
}

TEST_CASE("runs side by side come to the same, and their results come in order") {
  const fabric::Graph graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ring(graph, 4, 100'000, 1);
  Study study = both_ways(graph, traffic);
  const StudyResult one = run_study(study).value();
  study.parallel = 4;
  std::vector<std::pair<Scheme, uint64_t>> order;
  std::vector<size_t> steps;
  size_t started = 0, ended = 0;
  study.on_start = [&](const RunStart&) { ++started; };
  study.on_end = [&](const RunStart&) { ++ended; };
  study.on_run = [&](const Observation& o) { order.emplace_back(o.run.scheme, o.run.seed); };
  study.on_step = [&](const StudyResult& result) -> Status {
    steps.push_back(result.done());
    return {};
  };
  const StudyResult several = run_study(study).value();
  CHECK(started == 7);
  CHECK(ended == 7);
  CHECK(steps == std::vector<size_t>{1, 2, 3, 4, 5, 6, 7});
  REQUIRE(several.runs.size() == one.runs.size());
  for (size_t i = 0; i < one.runs.size(); ++i) {
    CHECK(order[i] == std::pair(one.runs[i].scheme, one.runs[i].seed));
    CHECK(several.runs[i].times_ms == one.runs[i].times_ms);
    CHECK(several.runs[i].link_bytes == one.runs[i].link_bytes);
  }
  study.on_step = [](const StudyResult& result) -> Status {
    return result.done() < 3 ? Status() : Error{ErrorCode::kSystem, "the disk is full"};
  };
  order.clear();
  CHECK(run_study(study).error().message == "the disk is full");
  CHECK(order.size() == 2);  // beside the ideal
  study.on_step = [](const StudyResult&) -> Status { throw std::bad_alloc(); };
  CHECK_THROWS_AS(run_study(study), std::bad_alloc);
}

TEST_CASE("what an engine cannot tell apart runs once, unless its run is needed") {
  const fabric::Graph graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ring(graph, 4, 100'000, 1);
  Study study = study_of(graph, traffic, {Scheme::kSpray, Scheme::kRecycle, Scheme::kRehash}, {1, 2});
  study.ideal = false;
  study.parallel = 2;
  study.reduce = [](std::vector<FlowRoute>& routes) {  // to one path for all
    for (FlowRoute& route : routes)
      for (QpRoute& qp : route.qps) {
        qp.paths = {*std::min_element(qp.paths.begin(), qp.paths.end())};
        qp.policy = PathPolicy::kStatic;
      }
  };
  std::vector<std::pair<Scheme, uint64_t>> run, repeated;
  study.on_run = [&](const Observation& o) { run.emplace_back(o.run.scheme, o.run.seed); };
  study.on_repeat = [&](const Run& again, const Run& like) {
    CHECK(like.scheme == Scheme::kSpray);
    CHECK(like.seed == 1);
    repeated.emplace_back(again.scheme, again.seed);
  };
  study.must_run = [](Scheme scheme, uint64_t seed) { return scheme == Scheme::kRecycle && seed == 2; };
  const StudyResult result = run_study(study).value();
  CHECK(run == std::vector<std::pair<Scheme, uint64_t>>{{Scheme::kSpray, 1}, {Scheme::kRecycle, 2}});
  CHECK(repeated == std::vector<std::pair<Scheme, uint64_t>>{
                        {Scheme::kSpray, 2}, {Scheme::kRecycle, 1}, {Scheme::kRehash, 1}, {Scheme::kRehash, 2}});
  REQUIRE(result.runs.size() == 6);
  for (const Run& each : result.runs) CHECK(each.times_ms == result.runs[0].times_ms);
  CHECK(result.runs[4].scheme == Scheme::kRehash);
  CHECK(result.summaries.size() == 3);
}

TEST_CASE("a run that must be made again keeps its result until then") {
  const fabric::Graph graph = leaf_spine(2, 2, 4);
  const Traffic traffic = ring(graph, 4, 100'000, 1);
  Study study = both_ways(graph, traffic);
  const StudyResult whole = run_study(study).value();
  study.known = [&](Scheme scheme, uint64_t seed, bool ideal) -> std::optional<Run> {
    if (ideal) return whole.ideal;
    if (scheme == Scheme::kOrreryPaths && seed == 3) return std::nullopt;
    return whole.runs[(scheme == Scheme::kEcmp ? 0 : 3) + seed - 1];
  };
  study.must_run = [](Scheme scheme, uint64_t seed) { return scheme == Scheme::kEcmp && seed == 2; };
  std::vector<size_t> steps;
  std::vector<std::string> run;
  study.on_start = [&](const RunStart& start) { run.push_back(start.what); };
  study.on_step = [&](const StudyResult& result) -> Status {
    steps.push_back(result.done());
    return {};
  };
  const StudyResult again = run_study(study).value();
  CHECK(run == std::vector<std::string>{"ecmp, seed 2", "orrery-paths, seed 3"});
  CHECK(steps == std::vector<size_t>{6, 7});
  REQUIRE(again.runs.size() == whole.runs.size());
  for (size_t i = 0; i < whole.runs.size(); ++i) CHECK(again.runs[i].times_ms == whole.runs[i].times_ms);
}

TEST_CASE("an error names the run") {
  fabric::Graph graph = leaf_spine(2, 1, 4);
  const Traffic traffic = ring(graph, 4, 100'000, 1);
  for (const fabric::LinkId link : core_links(graph)) graph.set_link_up(link, false);
  Study study = both_ways(graph, traffic);
  study.ideal = false;
  const auto result = run_study(study);
  REQUIRE_FALSE(result);
  CHECK(result.error().message.starts_with("ecmp, seed 1: flow"));
}

TEST_CASE("percentiles are values that occurred, by nearest rank") {
  CHECK(percentile({}, 0.5) == 0);
  CHECK(percentile({3, 1, 2}, 0.5) == 2);
  CHECK(percentile({4, 1, 3, 2}, 0.5) == 2);
  CHECK(percentile({4, 1, 3, 2}, 0.99) == 4);
  CHECK(percentile({7}, 0.01) == 7);
}

}  // namespace orrery::sim
