#include "controller/planner/phase_offsets.h"

#include <catch2/catch.hpp>

#include "tests/unit/planner/fixtures.h"

using namespace orrery;
using namespace orrery::planner;
using namespace orrery::planner::testing;

namespace {

constexpr uint64_t kRate = 100'000'000;

PeriodicJob job(uint64_t id, uint64_t period_ns, std::vector<Activity> activity) {
  return {.job_id = id, .period_ns = period_ns, .activity = std::move(activity)};
}

// The overlap on one link by stepping through time, shifts and periods applied.
double overlap_of(const std::vector<PeriodicJob>& jobs, const std::vector<PhaseShift>& shifts, uint64_t until_ns) {
  double beyond = 0, all = 0;
  constexpr uint64_t kStep = 1'000;
  for (uint64_t now = until_ns / 2; now < until_ns; now += kStep) {
    double rate = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      const uint64_t period = shifts[i].period_ns == 0 ? jobs[i].period_ns : shifts[i].period_ns;
      for (const Activity& part : jobs[i].activity) {
        const uint64_t at = (now + 2 * period - shifts[i].shift_ns % period - part.start_ns % period) % period;
        if (at < part.end_ns - part.start_ns) rate += static_cast<double>(part.rate_bps);
      }
    }
    beyond += std::max(0.0, rate - static_cast<double>(kRate));
    all += rate;
  }
  return beyond / all;
}

}  // namespace

TEST_CASE("two jobs that send half of the time take turns") {
  const auto fabric = clos({});
  const std::vector<PeriodicJob> jobs = {job(1, 1'000'000, {{5, 0, 480'000, kRate}}),
                                         job(2, 1'000'000, {{5, 100'000, 580'000, kRate}})};
  const PhaseOffsets offsets = phase_offsets(fabric, jobs);
  CHECK(offsets.overlap_before == Approx(0.38 / 0.96).margin(0.02));
  CHECK(offsets.overlap_after == Approx(0).margin(1e-9));
  CHECK(offsets.jobs[0].job_id == 1);
  CHECK(offsets.jobs[1].period_ns == 1'000'000);
  CHECK(overlap_of(jobs, offsets.jobs, 40'000'000) < 0.001);
}

TEST_CASE("jobs that share no link, or never fill one, stay where they are") {
  const auto fabric = clos({});
  for (const auto& jobs :
       {std::vector{job(1, 1000, {{5, 0, 900, kRate}}), job(2, 1000, {{6, 0, 900, kRate}})},
        std::vector{job(1, 1000, {{5, 0, 900, kRate / 2}}), job(2, 1000, {{5, 0, 900, kRate / 2}})},
        std::vector{job(1, 1000, {{5, 0, 900, kRate}})}, std::vector{job(1, 0, {}), job(2, 1000, {})}}) {
    const PhaseOffsets offsets = phase_offsets(fabric, jobs);
    CHECK(offsets.overlap_before == 0);
    for (const PhaseShift& shift : offsets.jobs) CHECK(shift.shift_ns == 0);
  }
  CHECK(phase_offsets(fabric, {}).jobs.empty());
}

TEST_CASE("a job of half the period fits between the bursts of the other") {
  const auto fabric = clos({});
  const std::vector<PeriodicJob> jobs = {job(1, 2'000'000, {{5, 0, 300'000, kRate}, {5, 1'000'000, 1'300'000, kRate}}),
                                         job(2, 990'000, {{5, 0, 500'000, kRate}})};
  const PhaseOffsets offsets = phase_offsets(fabric, jobs);
  CHECK(offsets.jobs[0].period_ns == 2'000'000);
  CHECK(offsets.jobs[1].period_ns == 1'000'000);  // one per cent longer than its own
  CHECK(offsets.overlap_after == Approx(0).margin(1e-9));
  CHECK(overlap_of(jobs, offsets.jobs, 40'000'000) < 0.001);
}

TEST_CASE("a job whose period fits no other's has no shift") {
  const auto fabric = clos({});
  const PhaseOffsets offsets =
      phase_offsets(fabric,
                    std::vector{job(1, 1'000'000, {{5, 0, 500'000, kRate}}),
                                job(2, 1'000'000, {{5, 0, 400'000, kRate}}), job(3, 618'034, {{5, 0, 100'000, kRate}})},
                    {.max_stretch_percent = 0});
  CHECK(offsets.jobs[2].period_ns == 0);
  CHECK(offsets.jobs[2].shift_ns == 0);
  CHECK(offsets.overlap_after < offsets.overlap_before);
}

TEST_CASE("bursts that pass the end of the period go on at its beginning") {
  const auto fabric = clos({});
  const std::vector<PeriodicJob> jobs = {job(1, 1'000'000, {{5, 800'000, 1'300'000, kRate}}),
                                         job(2, 1'000'000, {{5, 0, 400'000, kRate}})};
  const PhaseOffsets offsets = phase_offsets(fabric, jobs);
  CHECK(offsets.overlap_before == Approx(0.3 / 0.9).margin(0.02));
  CHECK(overlap_of(jobs, offsets.jobs, 40'000'000) < 0.001);
}

TEST_CASE("random jobs on several links: never worse, near the best of all shifts, the same each time") {
  Random random(81);
  const auto fabric = clos({});
  double ours = 0, best = 0, before = 0;
  for (int round = 0; round < 25; ++round) {
    std::vector<PeriodicJob> jobs;
    for (uint64_t id = 0; id < 3; ++id) {
      std::vector<Activity> activity;
      for (fabric::LinkId link = 0; link < 3; ++link) {
        if (random.below(3) == 0) continue;
        const uint64_t start = 10'000 * random.below(60);
        activity.push_back({link, start, start + 50'000 + 10'000 * random.below(25), kRate});
      }
      jobs.push_back(job(id, 600'000, activity));
    }
    const PhaseOptions options{.slots = 60};
    const PhaseOffsets offsets = phase_offsets(fabric, jobs, options);
    REQUIRE(offsets.overlap_after <= offsets.overlap_before);
    const PhaseOffsets again = phase_offsets(fabric, jobs, options);
    for (size_t i = 0; i < jobs.size(); ++i) REQUIRE(again.jobs[i].shift_ns == offsets.jobs[i].shift_ns);
    double least = offsets.overlap_before;
    for (uint64_t a = 0; a < 600'000; a += 50'000)
      for (uint64_t b = 0; b < 600'000; b += 50'000) {
        std::vector<PeriodicJob> moved = jobs;
        for (Activity& part : moved[1].activity) part.start_ns += a, part.end_ns += a;
        for (Activity& part : moved[2].activity) part.start_ns += b, part.end_ns += b;
        least = std::min(least, phase_offsets(fabric, moved, options).overlap_before);
      }
    ours += offsets.overlap_after, best += least, before += offsets.overlap_before;
  }
  CHECK(ours <= best + 0.1 * before);
  CHECK(ours < 0.7 * before);
}
