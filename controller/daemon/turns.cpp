#include "controller/daemon/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace orrery::daemon {
namespace {

using fabric::kNone;

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kLeastIntervalNs = 1'000 * kNsPerMs;
constexpr uint64_t kMostIntervalNs = 30'000 * kNsPerMs;
constexpr uint64_t kPeriodsPerLook = 4;
constexpr uint32_t kSlots = 60;            // of a common period: that is how exactly jobs are placed
constexpr uint32_t kMostStretch = 5;       // percent of a period: as exactly as periods are known while jobs collide
constexpr uint64_t kPeriodShare = 50;      // of a period: what a job may be held back in one
constexpr uint64_t kLeastWaitNs = 10'000;  // shorter ones do not last until the send
constexpr uint64_t kMostRounds = 1000;     // that a move may take
constexpr uint64_t kRestNs = 600'000 * kNsPerMs;  // of a job that does not give way

std::string ms_text(uint64_t ns) {
  return fmt::format("{:.3g} ms", static_cast<double>(ns) / kNsPerMs);
}

bool makes_sense(const Jobs& jobs, const planner::PhaseOffsets& offsets) {
  if (offsets.jobs.size() != jobs.jobs.size()) return false;
  for (size_t i = 0; i < offsets.jobs.size(); ++i) {
    const planner::PhaseShift& shift = offsets.jobs[i];
    if (shift.job_id != jobs.jobs[i].rhythm.job_id || shift.shift_ns > shift.period_ns) return false;
  }
  return offsets.overlap_after >= 0 && offsets.overlap_after <= offsets.overlap_before && offsets.overlap_before <= 1;
}

}  // namespace

bool Turns::look(const fabric::Graph& fabric, const Result<Jobs>& jobs, const std::vector<uint64_t>& room_ns,
                 uint64_t now_ns) {
  failure_.clear();
  interval_ns_ = kLeastIntervalNs;
  if (jobs)
    for (const Job& job : jobs->jobs)
      interval_ns_ = std::clamp(job.rhythm.period_ns * kPeriodsPerLook, interval_ns_, kMostIntervalNs);
  due_ns_ = now_ns + interval_ns_;
  const uint64_t since_ns = looked_ns_ == 0 ? 0 : now_ns - looked_ns_;
  looked_ns_ = now_ns;
  std::erase_if(attempts_, [&](const auto& entry) {
    return entry.second.seen_ns + kRestNs < now_ns && entry.second.rest_until_ns < now_ns;
  });
  if (!jobs) failure_ = jobs.error().message;
  if (!jobs || jobs->jobs.empty()) return take({}, {});
  std::vector<planner::PeriodicJob> rhythms;
  for (const Job& job : jobs->jobs) {
    Attempt& attempt = attempts_[job.rhythm.job_id];
    attempt.waited_ns += attempt.wait_ns * job.collectives * (since_ns / std::max<uint64_t>(1, job.rhythm.period_ns));
    attempt.seen_ns = now_ns;
    rhythms.push_back(job.rhythm);
  }
  for (auto& [id, attempt] : attempts_)
    if (attempt.seen_ns != now_ns) attempt.wait_ns = attempt.wanted_ns = attempt.waited_ns = 0;
  const planner::PhaseOffsets offsets =
      planner::phase_offsets(fabric, rhythms, {.max_stretch_percent = kMostStretch, .slots = kSlots});
  if (!makes_sense(*jobs, offsets) || room_ns.size() != rhythms.size()) {
    failure_ = "what was computed for them makes no sense";
    return take({}, {});
  }
  const std::vector<uint64_t> delay_ns = delays(*jobs, offsets);
  if (std::all_of(delay_ns.begin(), delay_ns.end(), [](uint64_t delay) { return delay == 0; }))
    for (auto& [id, attempt] : attempts_) attempt.wanted_ns = attempt.waited_ns = 0;  // they take turns
  std::vector<Turn> turns;
  for (uint32_t job = 0; job < rhythms.size(); ++job)
    turns.push_back(turn_of(fabric, *jobs, job, offsets, delay_ns[job], room_ns[job], now_ns));
  return take(std::move(turns), jobs->of_host);
}

bool Turns::take(std::vector<Turn> turns, std::vector<uint32_t> of_host) {
  std::vector<Turn> before = std::exchange(turns_, std::move(turns));
  std::vector<uint32_t> host_before = std::exchange(of_host_, std::move(of_host));
  if (turns_.empty())
    for (auto& [id, attempt] : attempts_) attempt.wait_ns = attempt.wanted_ns = attempt.waited_ns = 0;
  for (size_t host = 0; host < std::max(host_before.size(), of_host_.size()); ++host) {
    const uint32_t was = host < host_before.size() ? host_before[host] : kNone;
    if ((was == kNone ? 0 : before[was].wait_ns) != wait_ns(static_cast<fabric::NodeId>(host))) return true;
  }
  return false;
}

// How long each job would have to be delayed in all: only shifts against each other count, so those are chosen that
// delay least.
std::vector<uint64_t> Turns::delays(const Jobs& jobs, const planner::PhaseOffsets& offsets) const {
  std::vector<uint64_t> best(jobs.jobs.size());
  if (offsets.overlap_before - offsets.overlap_after < planner::kLeastOverlapGain) return best;
  std::optional<uint64_t> least;
  for (const planner::PhaseShift& still : offsets.jobs) {
    if (still.period_ns == 0) continue;
    std::vector<uint64_t> delay(best.size());
    uint64_t sum = 0;
    for (size_t job = 0; job < delay.size(); ++job) {
      const planner::PhaseShift& shift = offsets.jobs[job];
      if (shift.period_ns == 0) continue;
      delay[job] = (shift.shift_ns + shift.period_ns - still.shift_ns % shift.period_ns) % shift.period_ns;
      sum += delay[job];
    }
    if (least && sum >= *least) continue;
    least = sum;
    best = std::move(delay);
  }
  return best;
}

Turns::Turn Turns::turn_of(const fabric::Graph& fabric, const Jobs& jobs, uint32_t job,
                           const planner::PhaseOffsets& offsets, uint64_t delay_ns, uint64_t room_ns, uint64_t now_ns) {
  const SharedLink& shared = *std::find_if(jobs.shared.begin(), jobs.shared.end(), [&](const SharedLink& link) {
    return std::binary_search(link.jobs.begin(), link.jobs.end(), job);
  });
  const uint32_t other = shared.jobs.front() == job ? shared.jobs.back() : shared.jobs.front();
  const uint64_t id = jobs.jobs[job].rhythm.job_id, other_id = jobs.jobs[other].rhythm.job_id;
  const std::string link = fabric.link_name(shared.link);
  Attempt& attempt = attempts_[id];
  const uint64_t wait_ns = wait_for(jobs.jobs[job], attempt, delay_ns, room_ns, now_ns);
  attempt.wait_ns = wait_ns;
  if (wait_ns != 0)
    return {wait_ns,
            fmt::format("Job {:#x} waits {} for job {:#x} at every collective until they take turns: they share {}.",
                        id, ms_text(wait_ns), other_id, link)};
  if (attempt.rest_until_ns > now_ns)
    return {0,
            fmt::format("Job {:#x} shares {} with job {:#x} and did not give way when it was held back, so it is not.",
                        id, link, other_id)};
  if (offsets.jobs[job].period_ns == 0 || offsets.jobs[other].period_ns == 0)
    return {0, fmt::format("Job {:#x} shares {} with job {:#x}, but their periods of {} and {} fit no common one, so "
                           "that they cannot take turns.",
                           id, link, other_id, ms_text(jobs.jobs[job].rhythm.period_ns),
                           ms_text(jobs.jobs[other].rhythm.period_ns))};
  if (delay_ns != 0)
    return {
        0, fmt::format("Job {:#x} shares {} with job {:#x} and would have to be moved by {}, which waits of at most {} "
                       "at its collectives ({} in a period) cannot do.",
                       id, link, other_id, ms_text(delay_ns), ms_text(room_ns), jobs.jobs[job].collectives)};
  return {0,
          fmt::format("Job {:#x} shares {} with job {:#x} and does not wait; {:.0f} % of the bytes on links that jobs "
                      "share meet there.",
                      id, link, other_id, offsets.overlap_before * 100)};
}

uint64_t Turns::wait_for(const Job& job, Attempt& attempt, uint64_t delay_ns, uint64_t room_ns, uint64_t now_ns) const {
  if (delay_ns == 0 || attempt.rest_until_ns > now_ns || job.collectives == 0) return 0;
  if (attempt.wanted_ns == 0) attempt.wanted_ns = delay_ns;
  if (attempt.waited_ns > 2 * attempt.wanted_ns + job.rhythm.period_ns) {
    attempt.wanted_ns = attempt.waited_ns = 0;
    attempt.rest_until_ns = now_ns + kRestNs;
    return 0;
  }
  // It is held back at all collectives until the next look.
  const uint64_t period_ns = job.rhythm.period_ns;
  const uint64_t until_look = job.collectives * std::max<uint64_t>(1, interval_ns_ / period_ns);
  uint64_t wait_ns = std::min({delay_ns / until_look, room_ns, period_ns / kPeriodShare / job.collectives});
  wait_ns -= wait_ns % kLeastWaitNs;
  return wait_ns * job.collectives * kMostRounds < delay_ns ? 0 : wait_ns;
}

const Turns::Turn* Turns::of_host(fabric::NodeId host) const {
  return host < of_host_.size() && of_host_[host] != kNone ? &turns_[of_host_[host]] : nullptr;
}

uint64_t Turns::wait_ns(fabric::NodeId host) const {
  const Turn* turn = of_host(host);
  return turn == nullptr ? 0 : turn->wait_ns;
}

std::string Turns::problem(uint64_t now_ns) const {
  if (!failure_.empty())
    return fmt::format("jobs that share links do not take turns: {}; set plan.turns_enabled to false if this stays",
                       failure_);
  size_t resting = 0;
  uint64_t first = 0;
  for (const auto& [id, attempt] : attempts_)
    if (attempt.rest_until_ns > now_ns && resting++ == 0) first = id;
  if (resting == 0) return "";
  return fmt::format(
      "{} jobs did not give way to others when they were held back, the first is {:#x}: they are left "
      "alone for ten minutes; see 'orreryctl flow explain'",
      resting, first);
}

}  // namespace orrery::daemon
