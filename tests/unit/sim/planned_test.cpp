#include <catch2/catch.hpp>
#include <random>

#include "controller/planner/phase_offsets.h"
#include "tests/unit/sim/studies.h"
#include "tools/sim/workload/jobs.h"

namespace orrery::sim {
namespace {

Traffic collective(const fabric::Graph& graph, const Collective& what, const CommunicatorOptions& options = {}) {
  Job job;
  job.name = "job";
  job.hosts = place(graph, {static_cast<uint32_t>(graph.nics().size())}, Placement::kFragmented, 1).value()[0];
  job.options = options;
  job.steps = {{.collective = what}};
  Traffic traffic;
  add_job(traffic, job).value();
  return traffic;
}

// Of a host on either leaf each, that send for less than half of their period.
Traffic two_jobs(uint32_t iterations, uint32_t channels) {
  Traffic traffic;
  for (uint32_t number = 0; number < 2; ++number) {
    Job job;
    job.name = "job" + std::to_string(number);
    job.hosts = {number, 2 + number};
    job.iterations = iterations;
    job.options.channels = channels;
    job.steps = {{.compute = 3 * kPerMs, .collective = Collective{.op = Op::kAllReduce, .bytes = 25'000'000}}};
    add_job(traffic, job).value();
  }
  return traffic;
}

void fail_spine(fabric::Graph& graph, const std::string& spine) {
  for (fabric::LinkId link = 0; link < graph.links().size(); ++link)
    if (graph.node(graph.link(link).from).name == spine || graph.node(graph.link(link).to).name == spine)
      graph.set_link_up(link, false);
}

}  // namespace

TEST_CASE("with one failed spine a planned ring is within five per cent of the proportional ideal") {
  fabric::Graph graph = leaf_spine(4, 8, 32);
  fail_spine(graph, "spine3");
  // Few long steps, so that latency does not count.
  const Traffic traffic =
      collective(graph, {.op = Op::kAllReduce, .bytes = 64'000'000}, CommunicatorOptions{.max_steps = 4});
  Study study = study_of(graph, traffic, {Scheme::kOrreryStagger});
  const StudyResult split = run_study(study).value();
  // Eight flows on seven links.
  CHECK(split.summaries[0].slowdown < 1.05 * 8 / 7);
  study.options.subflows = 1;
  CHECK(run_study(study).value().summaries[0].slowdown > 1.9);
}

TEST_CASE("how many queue pairs share a flow is taken from who knows it, for each kind of plan by itself") {
  fabric::Graph graph = leaf_spine(4, 8, 32);
  fail_spine(graph, "spine3");
  const Traffic traffic = collective(graph, {.op = Op::kAllReduce, .bytes = 64'000'000});
  SchemeOptions options;
  const auto queue_pairs = [&](Scheme scheme) { return route(traffic, graph, scheme, options)->flows[0].qps.size(); };
  const uint32_t asked = subflows_of(traffic, graph, Scheme::kOrreryStagger, options).value();
  CHECK(asked > 3);
  options.known = {.paths = 3};
  CHECK(queue_pairs(Scheme::kOrreryPaths) == 3);
  CHECK(queue_pairs(Scheme::kOrreryStagger) == asked);
  options.known = {.others = 2};
  CHECK(queue_pairs(Scheme::kOrreryPhases) == 2);
  CHECK(subflows_of(traffic, graph, Scheme::kOrreryStagger, options).value() == 2);
}

TEST_CASE("an all-to-all that starts at once goes in rounds that keep the queues short, unless holds are limited") {
  const fabric::Graph graph = leaf_spine(4, 4, 16);
  const Traffic traffic =
      collective(graph, {.op = Op::kAllToAll, .bytes = 32'000'000}, CommunicatorOptions{.round_width = 15});
  Study study = study_of(graph, traffic, {Scheme::kEcmp, Scheme::kOrreryPaths, Scheme::kOrreryStagger});
  const StudyResult rounds = run_study(study).value();
  const Run &hashed = rounds.runs[0], &paths = rounds.runs[1], &planned = rounds.runs[2];
  // Every NIC sends 15 times 2 MB.
  CHECK(planned.lower_bound == 15 * 160 * kPerUs);
  CHECK(planned.planned_drain == planned.lower_bound);
  CHECK(rounds.summaries[2].slowdown < 1.03);
  CHECK(hashed.max_queue_bytes > 20 * planned.max_queue_bytes);
  CHECK(planned.max_queue_bytes < 40'000);
  CHECK(paths.max_queue_bytes < 200'000);  // paced, all at once
  // The last round would begin 2.3 ms after the collective.
  study.options.max_hold = 1 * kPerMs;
  const StudyResult limited = run_study(study).value();
  CHECK(limited.runs[2].end != planned.end);
  CHECK(limited.summaries[2].slowdown < 1.1);
  study.options.max_hold = 3 * kPerMs;
  CHECK(run_study(study).value().runs[2].end == planned.end);
}

TEST_CASE("a pairwise all-to-all that is repeated keeps to the ideal where hosts drift apart, also on unequal leaves") {
  const fabric::Graph graph = leaf_spine(3, 8, 24);
  // One after the other from seven hosts of each leaf, six of the last.
  Job job;
  job.name = "job";
  for (uint32_t rank = 0; rank < 20; ++rank) job.hosts.push_back(rank % 3 * 8 + rank / 3);
  job.iterations = 3;
  job.steps = {{.collective = Collective{.op = Op::kAllToAll, .bytes = 14'000'000}}};
  Traffic traffic;
  add_job(traffic, job).value();
  const StudyResult result =
      run_study(study_of(graph, traffic, {Scheme::kOrreryPaths, Scheme::kOrreryStagger})).value();
  for (const Summary& summary : result.summaries) CHECK(summary.slowdown < 1.05);
}

TEST_CASE("clocks that are wrong move staggered starts by as much, and cost no more than that") {
  // Eight flows meet on both links between the leaves, paced to an eighth each.
  const fabric::Graph graph = leaf_spine(2, 1, 16);
  Traffic traffic;
  Job job;
  job.name = "job";
  job.hosts = place(graph, {16}, Placement::kFragmented, 1).value()[0];
  job.steps = {{.collective = Collective{.op = Op::kAllReduce, .bytes = 4'000'000}}};
  add_job(traffic, job).value();
  Study study = study_of(graph, traffic, {Scheme::kOrreryStagger});
  const Run right = run_study(study).value().runs[0];
  for (const int64_t error_ns : {30, 1'000, 100'000}) {
    study.clock_errors = [&](uint64_t seed) {
      std::mt19937_64 random(seed);
      std::vector<int64_t> errors;
      for (size_t host = 0; host < graph.nics().size(); ++host)
        errors.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(2'000 * error_ns + 1)) -
                         1'000 * error_ns);
      return errors;
    };
    study.seeds = {1, 2};
    const StudyResult wrong = run_study(study).value();
    for (const Run& run : wrong.runs) {
      INFO("clocks wrong by up to " << error_ns << " ns, seed " << run.seed);
      CHECK(run.end != right.end);
      CHECK(run.end <= right.end + 2'000 * static_cast<Time>(error_ns));
      CHECK(run.max_queue_bytes <= 2 * right.max_queue_bytes);
      CHECK(run.totals.drops == 0);
    }
  }
}

// As tensor, data and expert parallelism have it: the first is done when the second begins.
TEST_CASE("what a NIC sends for one communicator is not held back for another that may send at another time") {
  const fabric::Graph graph = leaf_spine(2, 8, 16);
  Traffic traffic;
  Job job;
  job.name = "job";
  job.hosts = place(graph, {16}, Placement::kFragmented, 1).value()[0];
  const Collective gather{.op = Op::kAllGather, .bytes = 32'000'000};
  job.steps = {{.collective = gather, .group = {4, 4}, .overlapped = true},
               {.compute = 5 * kPerMs, .collective = gather, .group = {2, 8}}};
  add_job(traffic, job).value();
  const StudyResult result = run_study(study_of(graph, traffic, {Scheme::kOrreryStagger})).value();
  CHECK(result.summaries[0].slowdown < 1.02);
}

TEST_CASE("jobs that share links take turns when their rounds are shifted") {
  // Two hosts per leaf and one uplink: both jobs cross it, each for less than half of its period.
  const fabric::Graph graph = leaf_spine(2, 1, 4);
  const Traffic traffic = two_jobs(8, 1);
  Study study = study_of(graph, traffic, {Scheme::kOrreryStagger, Scheme::kOrreryPhases});
  double before = 0, after = 1;
  study.on_run = [&](const Observation& seen) {
    before = seen.routed.overlap_before, after = seen.routed.overlap_after;
  };
  const StudyResult result = run_study(study).value();
  CHECK(before > 0.4);
  CHECK(after == Approx(0).margin(1e-6));
  CHECK(result.summaries[0].slowdown > 1.3);
  CHECK(result.summaries[1].slowdown < 1.1);
  // A round that may not wait cannot be kept in its turn for long, but is not slowed down either.
  study.options.max_wait = 0;
  CHECK(run_study(study).value().summaries[1].slowdown < 1.2);
}

TEST_CASE("jobs do not wait for turns that bring next to nothing out of the overlap") {
  // Four hosts on a leaf, two uplinks: two jobs that send for less than half of their period, and together fill the
  // links exactly.
  const fabric::Graph graph = leaf_spine(2, 2, 4);
  const Traffic traffic = two_jobs(4, 2);
  Study study = study_of(graph, traffic, {Scheme::kOrreryPhases});
  study.on_run = [](const Observation& seen) {
    CHECK(seen.routed.overlap_before < planner::kLeastOverlapGain);
    CHECK(seen.routed.phases.empty());
  };
  CHECK(run_study(study).value().summaries[0].slowdown < 1.05);
}

}  // namespace orrery::sim
