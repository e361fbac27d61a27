// Orrery: what the controller would plan for this traffic, carried out as its agents would.
#include <algorithm>

#include "controller/planner/planner.h"
#include "tools/sim/schemes/schemes.h"
#include "tools/sim/schemes/timeline.h"

namespace orrery::sim {
namespace {

// How many collectives each flow has part in per round, by flow.
std::vector<uint32_t> collectives_per_round(const Traffic& traffic) {
  std::vector<uint32_t> collectives(traffic.flows.size()), rounds(traffic.jobs.size());
  for (const Round& round : traffic.rounds) ++rounds[round.job];
  for (const Task& task : traffic.tasks)
    if (task.opens_collective && task.transfer != kNone) ++collectives[traffic.transfers[task.transfer].flow];
  for (size_t i = 0; i < collectives.size(); ++i)
    collectives[i] = std::max(1u, collectives[i] / std::max(1u, rounds[traffic.flows[i].job]));
  return collectives;
}

planner::Snapshot snapshot_of(const Traffic& traffic, const fabric::Graph& graph, bool stagger,
                              const SchemeOptions& options) {
  planner::Snapshot snapshot;
  snapshot.fabric = &graph;
  snapshot.options.stagger = snapshot.options.rounds = stagger;
  snapshot.options.min_stagger_ns = options.min_stagger / kPerNs;
  snapshot.options.max_stagger_ns = options.max_stagger / kPerNs;
  if (options.max_hold != 0) snapshot.options.max_offset_ns = options.max_hold / kPerNs;
  const std::vector<uint64_t> bytes = bytes_per_round(traffic);
  const std::vector<uint32_t> collectives = collectives_per_round(traffic);
  for (uint32_t i = 0; i < traffic.flows.size(); ++i) {
    const Flow& flow = traffic.flows[i];
    planner::FlowDemand demand;
    demand.flow_id = i + 1;
    demand.comm_id = (uint64_t{flow.job} + 1) << 32 | flow.communicator;
    demand.src = graph.nics()[flow.src].address;
    demand.dst = graph.nics()[flow.dst].address;
    demand.bytes = bytes[i];
    demand.phase = flow.phase;
    demand.exchange = flow.exchange;
    demand.collectives = collectives[i];
    snapshot.flows.push_back(std::move(demand));
  }
  return snapshot;
}

// Messages that splitting flows may lead to: memory stays in proportion to the traffic.
constexpr size_t kMaxSplitTransfers = 1u << 22;

// Where links are gone or unequal, whole flows do not divide evenly over the rest.
Result<uint32_t> choose_subflows(const planner::Snapshot& snapshot, const Traffic& traffic, Scheme scheme,
                                 const SchemeOptions& options) {
  if (const uint32_t known = options.known.of(scheme); known != 0) return known;
  const size_t transfers = std::max<size_t>(1, std::max(traffic.transfers.size(), 16 * traffic.flows.size()));
  const uint32_t most = std::max(1u, static_cast<uint32_t>(kMaxSplitTransfers / transfers));
  return planner::least_subflows(snapshot, std::min(options.subflows, most));
}

// A turn is kept only if the period is not too short: what the timeline does not know of (queues) takes time too.
constexpr uint64_t kPeriodMargin = 100;

// Shifts jobs so that they take turns on shared links, where that helps.
void take_turns(const Traffic& traffic, const fabric::Graph& graph, const SchemeOptions& options, Routed& routed) {
  if (traffic.jobs.size() < 2) return;
  const std::vector<JobTimeline> timelines = timeline_of(traffic, graph, routed.flows);
  std::vector<planner::PeriodicJob> jobs;
  for (const JobTimeline& timeline : timelines) {
    jobs.push_back(timeline.job);
    jobs.back().period_ns += jobs.back().period_ns / kPeriodMargin;
  }
  const planner::PhaseOffsets offsets = planner::phase_offsets(graph, jobs);
  routed.overlap_before = offsets.overlap_before;
  routed.overlap_after = offsets.overlap_after;
  if (offsets.overlap_before - offsets.overlap_after < planner::kLeastOverlapGain) return;
  for (size_t job = 0; job < jobs.size(); ++job) {
    const planner::PhaseShift& shift = offsets.jobs[job];
    JobPhase phase{.period = shift.period_ns * kPerNs, .phase = 0, .max_wait = options.max_wait};
    if (phase.period != 0)
      phase.phase = (timelines[job].begin % (jobs[job].period_ns * kPerNs) + shift.shift_ns * kPerNs) % phase.period;
    routed.phases.push_back(phase);
  }
}

}  // namespace

Result<uint32_t> subflows_of(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme,
                             const SchemeOptions& options) {
  if (!plans(scheme)) return 1;
  return choose_subflows(snapshot_of(traffic, graph, scheme != Scheme::kOrreryPaths, options), traffic, scheme,
                         options);
}

Result<Routed> route_planned(const Traffic& traffic, const fabric::Graph& graph, Scheme scheme,
                             const SchemeOptions& options) {
  const bool stagger = scheme != Scheme::kOrreryPaths;
  planner::Snapshot snapshot = snapshot_of(traffic, graph, stagger, options);
  const bool turns = scheme == Scheme::kOrreryPhases || scheme == Scheme::kOrreryRepath;
  ORRERY_ASSIGN(const uint32_t subflows, choose_subflows(snapshot, traffic, scheme, options));
  for (planner::FlowDemand& demand : snapshot.flows) demand.subflows = subflows;
  ORRERY_ASSIGN(const planner::Plan plan, planner::plan(snapshot));
  Routed routed;
  routed.planned_drain = plan.max_drain_ns * kPerNs;
  routed.lower_bound = plan.lower_bound_ns * kPerNs;
  for (uint32_t i = 0; i < traffic.flows.size(); ++i) {
    const planner::FlowAssignment& assignment = plan.flows[i];
    if (assignment.path.empty()) return no_path(traffic, graph, i);
    FlowRoute route;
    const auto add_qp = [&](const fabric::Path& planned, const std::vector<fabric::Path>& backups) {
      QpRoute qp{{planned}, PathPolicy::kStatic};
      qp.paths.insert(qp.paths.end(), backups.begin(), backups.end());
      if (scheme == Scheme::kOrreryRepath) {
        qp.policy = PathPolicy::kBurst;
        const Flow& flow = traffic.flows[i];
        for (const fabric::Path& path : graph.paths(graph.nics()[flow.src], graph.nics()[flow.dst], options.path_limit))
          if (std::find(qp.paths.begin(), qp.paths.end(), path) == qp.paths.end()) qp.paths.push_back(path);
      }
      route.qps.push_back(std::move(qp));
    };
    add_qp(assignment.path, assignment.backups);
    for (const planner::SubflowAssignment& other : assignment.others) add_qp(other.path, other.backups);
    route.release_offset = stagger ? assignment.release_offset_ns * kPerNs : 0;
    if (options.max_hold != 0) route.release_offset = std::min(route.release_offset, options.max_hold);
    route.pace_bps = assignment.pace_bps;
    routed.flows.push_back(std::move(route));
  }
  if (turns) take_turns(traffic, graph, options, routed);
  return routed;
}

}  // namespace orrery::sim
