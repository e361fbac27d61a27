// Phase offsets: jobs that send in turns do not collide. Each job repeats its communication with a period of its own;
// on the circle of a common period, shifting jobs against each other makes their bursts on shared links overlap least.
// A pure function, as plan(). The idea is CASSINI's (Rajasekaran et al., NSDI 2024).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/fabric/graph.h"

namespace orrery::planner {

// What a job sends over a link in a part of its period. Parts of one link may overlap: they add up.
struct Activity {
  fabric::LinkId link = fabric::kNone;
  uint64_t start_ns = 0;  // from a time that all jobs share; counts modulo the period
  uint64_t end_ns = 0;    // at most a period after
  uint64_t rate_bps = 0;
};

struct PeriodicJob {
  uint64_t job_id = 0;
  uint64_t period_ns = 0;
  std::vector<Activity> activity;
};

struct PhaseShift {
  uint64_t job_id = 0;
  // To start later by so much, once; then to keep this period, its own or a little longer. 0: its period fits no common
  // one, so that it meets the others now here, now there, and no shift lasts.
  uint64_t shift_ns = 0;
  uint64_t period_ns = 0;
};

struct PhaseOffsets {
  std::vector<PhaseShift> jobs;  // in the order of the input
  // Of the bytes on links that several jobs use, the part that comes while others fill the link.
  double overlap_before = 0;
  double overlap_after = 0;
};

// What shifting jobs must bring out of the overlap: headers alone make links that are exactly full seem overfull, and
// waiting for a turn is not free.
inline constexpr double kLeastOverlapGain = 0.05;

struct PhaseOptions {
  uint32_t max_stretch_percent = 3;  // by which a period may be made longer to fit
  uint32_t slots = 120;              // of a common period, at least
};

// Jobs with a period of 0 or without activity stay where they are and count for nothing. Time: slots^2 * links with
// different use * jobs. overlap_after <= overlap_before.
PhaseOffsets phase_offsets(const fabric::Graph& fabric, std::span<const PeriodicJob> jobs,
                           const PhaseOptions& options = {});

}  // namespace orrery::planner
