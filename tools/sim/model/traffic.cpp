#include "tools/sim/model/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace orrery::sim {
namespace {

Error fault(const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, "traffic: " + what};
}

Status check_edges(const Traffic& traffic, const std::vector<Edge>& edges, size_t from_count, const char* what,
                   uint32_t (*host_of)(const Traffic&, uint32_t)) {
  for (const Edge& edge : edges) {
    if (edge.from >= from_count || edge.to >= traffic.tasks.size())
      return fault(fmt::format("an edge from {} {} to task {} leads out of range", what, edge.from, edge.to));
    const uint32_t host = host_of(traffic, edge.from);
    if (host != traffic.tasks[edge.to].host)
      return fault(
          fmt::format("task {} on host {} waits for {} {}, which ends on host {}: only a transfer leads to "
                      "another host",
                      edge.to, traffic.tasks[edge.to].host, what, edge.from, host));
  }
  return {};
}

Status check_parts(const Traffic& traffic, uint32_t hosts) {
  for (size_t i = 0; i < traffic.flows.size(); ++i) {
    const Flow& flow = traffic.flows[i];
    if (flow.src >= hosts || flow.dst >= hosts || flow.src == flow.dst)
      return fault(fmt::format("flow {} goes from host {} to host {}; there are {} hosts, and both ends differ", i,
                               flow.src, flow.dst, hosts));
    if (flow.job >= traffic.jobs.size())
      return fault(fmt::format("flow {} is of job {}, which is unknown", i, flow.job));
  }
  for (size_t i = 0; i < traffic.transfers.size(); ++i)
    if (traffic.transfers[i].flow >= traffic.flows.size())
      return fault(fmt::format("transfer {} is of flow {}, which is unknown", i, traffic.transfers[i].flow));
  std::vector<uint8_t> started(traffic.transfers.size());
  for (size_t i = 0; i < traffic.tasks.size(); ++i) {
    const Task& task = traffic.tasks[i];
    if (task.host >= hosts) return fault(fmt::format("task {} is on host {} of {}", i, task.host, hosts));
    if (task.transfer == kNone) continue;
    if (task.transfer >= traffic.transfers.size() || started[task.transfer]++ != 0)
      return fault(fmt::format("task {} starts transfer {}, which is unknown or started twice", i, task.transfer));
    if (traffic.flows[traffic.transfers[task.transfer].flow].src != task.host)
      return fault(fmt::format("task {} on host {} starts transfer {} of another host", i, task.host, task.transfer));
  }
  const auto missing = std::find(started.begin(), started.end(), 0);
  if (missing != started.end()) return fault(fmt::format("no task starts transfer {}", missing - started.begin()));
  return {};
}

}  // namespace

uint32_t Traffic::add_flow(const Flow& flow) {
  flows.push_back(flow);
  return static_cast<uint32_t>(flows.size() - 1);
}

uint32_t Traffic::add_transfer(uint32_t flow, uint64_t bytes) {
  transfers.push_back({flow, bytes});
  return static_cast<uint32_t>(transfers.size() - 1);
}

uint32_t Traffic::add_send(uint32_t transfer, Time delay, bool opens_collective) {
  tasks.push_back({flows[transfers[transfer].flow].src, delay, transfer, opens_collective});
  return static_cast<uint32_t>(tasks.size() - 1);
}

uint32_t Traffic::add_computation(uint32_t host, Time duration) {
  tasks.push_back({host, duration, kNone, false});
  return static_cast<uint32_t>(tasks.size() - 1);
}

Status check(const Traffic& traffic, uint32_t hosts) {
  ORRERY_TRY(check_parts(traffic, hosts));
  const auto task_host = [](const Traffic& t, uint32_t i) { return t.tasks[i].host; };
  const auto receiver = [](const Traffic& t, uint32_t i) { return t.flows[t.transfers[i].flow].dst; };
  const auto sender = [](const Traffic& t, uint32_t i) { return t.flows[t.transfers[i].flow].src; };
  ORRERY_TRY(check_edges(traffic, traffic.after_task, traffic.tasks.size(), "task", task_host));
  ORRERY_TRY(check_edges(traffic, traffic.after_delivered, traffic.transfers.size(), "transfer", receiver));
  ORRERY_TRY(check_edges(traffic, traffic.after_acknowledged, traffic.transfers.size(), "transfer", sender));
  for (const Round& round : traffic.rounds)
    for (const auto* tasks : {&round.opening, &round.closing})
      for (const uint32_t task : *tasks)
        if (task >= traffic.tasks.size()) return fault(fmt::format("a round names task {}, which is unknown", task));
  const std::vector<uint32_t> circle = circle_of(traffic);
  return circle.empty() ? Status() : fault(fmt::format("task {} waits for itself, by way of others", circle[0]));
}

std::vector<uint32_t> circle_of(const Traffic& traffic) {
  std::vector<uint32_t> starter(traffic.transfers.size()), pending(traffic.tasks.size());
  for (uint32_t i = 0; i < traffic.tasks.size(); ++i)
    if (traffic.tasks[i].transfer != kNone) starter[traffic.tasks[i].transfer] = i;
  const auto each_edge = [&](auto lead) {
    for (const Edge& edge : traffic.after_task) lead(edge.from, edge.to);
    for (const auto* edges : {&traffic.after_delivered, &traffic.after_acknowledged})
      for (const Edge& edge : *edges) lead(starter[edge.from], edge.to);
  };
  // What follows task i: followers[first[i]] up to followers[first[i + 1]].
  std::vector<uint64_t> first(traffic.tasks.size() + 1);
  each_edge([&](uint32_t from, uint32_t) { ++first[from]; });
  uint64_t edges = 0;
  for (uint64_t& end : first) end = edges += end;
  std::vector<uint32_t> followers(edges);
  each_edge([&](uint32_t from, uint32_t to) { followers[--first[from]] = to, ++pending[to]; });
  const auto next = [&](uint32_t task) {
    return std::span(followers).subspan(first[task], first[task + 1] - first[task]);
  };
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < pending.size(); ++i)
    if (pending[i] == 0) ready.push_back(i);
  size_t done = 0;
  for (; !ready.empty(); ++done) {
    const uint32_t task = ready.back();
    ready.pop_back();
    for (const uint32_t to : next(task))
      if (--pending[to] == 0) ready.push_back(to);
  }
  if (done == traffic.tasks.size()) return {};
  // What is left waits for something that is left: whoever goes back far enough goes round.
  std::vector<uint32_t> before(pending.size(), kNone);
  for (uint32_t i = 0; i < pending.size(); ++i)
    for (const uint32_t to : next(i))
      if (pending[i] != 0 && pending[to] != 0) before[to] = i;
  uint32_t task = static_cast<uint32_t>(
      std::find_if(pending.begin(), pending.end(), [](uint32_t p) { return p != 0; }) - pending.begin());
  std::vector<bool> seen(pending.size());
  for (; !seen[task]; task = before[task]) seen[task] = true;
  std::vector<uint32_t> circle{task};
  for (uint32_t other = before[task]; other != task; other = before[other]) circle.push_back(other);
  return circle;
}

std::vector<RoundTimes> round_times(const Traffic& traffic, const std::vector<Time>& task_done_at) {
  std::vector<RoundTimes> times;
  for (const Round& round : traffic.rounds) {
    RoundTimes time{.job = round.job};
    for (const uint32_t task : round.opening) time.begin = std::min(time.begin, task_done_at[task]);
    if (!round.closing.empty()) time.end = 0;
    for (const uint32_t task : round.closing) time.end = std::max(time.end, task_done_at[task]);
    times.push_back(time);
  }
  return times;
}

}  // namespace orrery::sim
