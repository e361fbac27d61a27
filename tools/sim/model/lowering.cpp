#include "tools/sim/model/lowering.h"

#include <fmt/format.h>

#include "tools/sim/model/program_builder.h"

namespace orrery::sim {
namespace {

struct Range {
  uint32_t first = 0, count = 0;
};

// Queue pair number k of a flow carries its share of the bytes, the first ones a byte more where it does not divide.
uint64_t share(uint64_t bytes, uint32_t parts, uint32_t part) {
  return bytes / parts + (part < bytes % parts ? 1 : 0);
}

Time release_delay(const Task& task, const FlowRoute& route, const LoweringOptions& options) {
  if (!task.opens_collective || route.release_offset == 0) return task.delay;
  const int64_t error = options.clock_error_ps.empty() ? 0 : options.clock_error_ps[task.host];
  const int64_t offset = static_cast<int64_t>(route.release_offset) + error;
  return task.delay + static_cast<Time>(offset > 0 ? offset : 0);
}

void align(const Traffic& traffic, const std::vector<JobPhase>& phases, ProgramBuilder& builder) {
  std::vector<bool> begun(traffic.jobs.size());
  for (const Round& round : traffic.rounds) {
    if (round.job >= phases.size() || phases[round.job].period == 0) continue;
    const JobPhase& phase = phases[round.job];
    for (const uint32_t task : round.opening)
      builder.align(task, {phase.period, phase.phase, begun[round.job] ? phase.max_wait : kNever});
    begun[round.job] = true;
  }
}

}  // namespace

Result<Program> lower(const Traffic& traffic, const std::vector<FlowRoute>& routes, const fabric::Graph& graph,
                      const LoweringOptions& options) {
  if (!options.checked) ORRERY_TRY(check(traffic, static_cast<uint32_t>(graph.nics().size())));
  ProgramBuilder builder(graph);
  std::vector<Range> qps(traffic.flows.size());
  for (uint32_t i = 0; i < traffic.flows.size(); ++i) {
    const Flow& flow = traffic.flows[i];
    if (i >= routes.size() || routes[i].qps.empty() || routes[i].qps[0].paths.empty())
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("flow {} from {} to {} has no route: is there a usable path between them?", i,
                      graph.node(graph.nics()[flow.src].host).name, graph.node(graph.nics()[flow.dst].host).name)};
    const auto count = static_cast<uint32_t>(routes[i].qps.size());
    for (uint32_t k = 0; k < count; ++k) {
      const QpRoute& route = routes[i].qps[k];
      const uint32_t qp = builder.add_qp(flow.src, flow.dst, route.paths, route.policy, routes[i].pace_bps / count);
      if (k == 0) qps[i] = {qp, count};
    }
  }
  // Tasks first, so that they keep their numbers.
  std::vector<Range> messages(traffic.transfers.size());
  for (uint32_t i = 0; i < traffic.transfers.size(); ++i) {
    const Range& pairs = qps[traffic.transfers[i].flow];
    for (uint32_t k = 0; k < pairs.count; ++k) {
      const uint32_t message = builder.add_message(pairs.first + k, share(traffic.transfers[i].bytes, pairs.count, k));
      if (k == 0) messages[i] = {message, pairs.count};
    }
  }
  for (const Task& task : traffic.tasks) {
    if (task.transfer == kNone) {
      builder.add_step(task.host, task.delay);
    } else {
      const FlowRoute& route = routes[traffic.transfers[task.transfer].flow];
      builder.add_send_step(messages[task.transfer].first, release_delay(task, route, options));
    }
  }
  align(traffic, options.phases, builder);
  // The other parts of a transfer start when its first part does.
  for (uint32_t i = 0; i < traffic.tasks.size(); ++i) {
    if (traffic.tasks[i].transfer == kNone) continue;
    const Range& parts = messages[traffic.tasks[i].transfer];
    for (uint32_t k = 1; k < parts.count; ++k) builder.after_step(i, builder.add_send_step(parts.first + k));
  }
  for (const Edge& edge : traffic.after_task) builder.after_step(edge.from, edge.to);
  for (const Edge& edge : traffic.after_delivered)
    for (uint32_t k = 0; k < messages[edge.from].count; ++k)
      builder.after_delivered(messages[edge.from].first + k, edge.to);
  for (const Edge& edge : traffic.after_acknowledged)
    for (uint32_t k = 0; k < messages[edge.from].count; ++k)
      builder.after_acknowledged(messages[edge.from].first + k, edge.to);
  return builder.build();
}

}  // namespace orrery::sim
