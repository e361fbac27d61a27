#include "tools/sim/schemes/timeline.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace orrery::sim {
namespace {

constexpr double kOnTheWire = 1.032;       // headers, and the acknowledgements of what comes the other way
constexpr Time kLinkLatency = 1 * kPerUs;  // and one packet per link
constexpr double kPacketBits = 4'064 * 8;
constexpr uint64_t kGapsPerPeriod = 100;  // shorter gaps of a flow count as sending

struct Sent {
  Time start = 0, end = 0;
};

// Runs tasks and transfers, NICs one transfer after the other.
class Rehearsal {
 public:
  Rehearsal(const Traffic& traffic, const fabric::Graph& graph, std::span<const FlowRoute> routes)
      : traffic_(traffic),
        graph_(graph),
        routes_(routes),
        pending_(traffic.tasks.size()),
        up_free_(graph.nics().size()),
        down_free_(graph.nics().size()),
        after_task_(traffic.tasks.size()),
        after_transfer_(traffic.transfers.size()),
        done_at(traffic.tasks.size(), kNever),
        sent(traffic.transfers.size()) {
    const auto add = [&](std::vector<std::vector<uint32_t>>& after, const std::vector<Edge>& edges) {
      for (const Edge& edge : edges) after[edge.from].push_back(edge.to), ++pending_[edge.to];
    };
    add(after_task_, traffic.after_task);
    add(after_transfer_, traffic.after_delivered);
    add(after_transfer_, traffic.after_acknowledged);
  }

  void run() {
    for (uint32_t task = 0; task < traffic_.tasks.size(); ++task)
      if (pending_[task] == 0) events_.push({traffic_.tasks[task].delay, task});
    const auto tasks = static_cast<uint32_t>(traffic_.tasks.size());
    while (!events_.empty()) {
      const auto [now, what] = events_.top();
      events_.pop();
      if (what < tasks) done_at[what] = now;
      if (what < tasks && traffic_.tasks[what].transfer != kNone) send(traffic_.tasks[what].transfer, now);
      for (const uint32_t task : what < tasks ? after_task_[what] : after_transfer_[what - tasks])
        if (--pending_[task] == 0) events_.push({now + traffic_.tasks[task].delay, task});
    }
  }

 private:
  using Event = std::pair<Time, uint32_t>;  // a task's end, or after all tasks a transfer's

  void send(uint32_t transfer, Time now) {
    const Flow& flow = traffic_.flows[traffic_.transfers[transfer].flow];
    const FlowRoute& route = routes_[traffic_.transfers[transfer].flow];
    const auto rate = static_cast<double>(graph_.link(graph_.nics()[flow.src].uplink).rate_bps);
    const double bits = static_cast<double>(traffic_.transfers[transfer].bytes) * 8 * kOnTheWire;
    const auto nic_time = static_cast<Time>(bits * 1e12 / rate);
    const double pace = route.pace_bps == 0 ? rate : std::min(rate, static_cast<double>(route.pace_bps));
    const Time start = std::max(now, up_free_[flow.src]);
    up_free_[flow.src] = start + nic_time;
    const Time end = std::max(start + static_cast<Time>(bits * 1e12 / pace), down_free_[flow.dst] + nic_time);
    down_free_[flow.dst] = end;
    sent[transfer] = {start, end};
    const auto links = static_cast<Time>(route.qps.front().paths.front().size());
    const Time latency = links * (kLinkLatency + static_cast<Time>(kPacketBits * 1e12 / rate));
    events_.push({end + latency, static_cast<uint32_t>(traffic_.tasks.size()) + transfer});
  }

  const Traffic& traffic_;
  const fabric::Graph& graph_;
  std::span<const FlowRoute> routes_;
  std::vector<uint32_t> pending_;          // by task
  std::vector<Time> up_free_, down_free_;  // by host
  std::vector<std::vector<uint32_t>> after_task_, after_transfer_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;

 public:
  std::vector<Time> done_at;  // by task
  std::vector<Sent> sent;     // by transfer
};

struct Burst {
  Time start = 0, end = 0;
  uint64_t bytes = 0;
};

// The transfers of each flow that start in the round of its job that is looked at.
std::vector<std::vector<Burst>> bursts_of(const Traffic& traffic, const Rehearsal& rehearsal,
                                          const std::vector<Time>& from, const std::vector<Time>& period) {
  std::vector<std::vector<Burst>> bursts(traffic.flows.size());
  for (uint32_t transfer = 0; transfer < traffic.transfers.size(); ++transfer) {
    const auto [start, end] = rehearsal.sent[transfer];
    const uint32_t flow = traffic.transfers[transfer].flow, job = traffic.flows[flow].job;
    if (period[job] == 0 || start < from[job] || start >= from[job] + period[job]) continue;
    std::vector<Burst>& of_flow = bursts[flow];
    if (!of_flow.empty() && start <= of_flow.back().end + period[job] / kGapsPerPeriod) {
      of_flow.back().end = std::max(of_flow.back().end, end);
      of_flow.back().bytes += traffic.transfers[transfer].bytes;
    } else {
      of_flow.push_back({start, end, traffic.transfers[transfer].bytes});
    }
  }
  return bursts;
}

}  // namespace

std::vector<JobTimeline> timeline_of(const Traffic& traffic, const fabric::Graph& graph,
                                     std::span<const FlowRoute> routes) {
  Rehearsal rehearsal(traffic, graph, routes);
  rehearsal.run();
  std::vector<std::vector<RoundTimes>> rounds(traffic.jobs.size());
  for (const RoundTimes& round : round_times(traffic, rehearsal.done_at))
    if (round.begin != kNever && round.end != kNever) rounds[round.job].push_back(round);
  std::vector<JobTimeline> jobs(traffic.jobs.size());
  std::vector<Time> from(jobs.size()), period(jobs.size());
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    jobs[job].job.job_id = job;
    if (rounds[job].empty()) continue;
    const size_t count = rounds[job].size();
    jobs[job].begin = rounds[job].front().begin;
    // The last round but one is as far from the beginning as it can be and has another behind it.
    from[job] = rounds[job][count < 2 ? 0 : count - 2].begin;
    period[job] = count < 2 ? rounds[job][0].end - rounds[job][0].begin
                            : (rounds[job].back().begin - rounds[job].front().begin) / (count - 1);
    jobs[job].job.period_ns = period[job] / kPerNs;
  }
  const auto bursts = bursts_of(traffic, rehearsal, from, period);
  for (uint32_t flow = 0; flow < bursts.size(); ++flow)
    for (const Burst& burst : bursts[flow]) {
      const double seconds = static_cast<double>(std::max<Time>(1, burst.end - burst.start)) * 1e-12;
      const double bits = static_cast<double>(burst.bytes) * 8 * kOnTheWire;
      const auto rate = static_cast<uint64_t>(bits / seconds / static_cast<double>(routes[flow].qps.size()));
      for (const QpRoute& qp : routes[flow].qps)
        for (const fabric::LinkId link : qp.paths.front())
          jobs[traffic.flows[flow].job].job.activity.push_back({link, burst.start / kPerNs, burst.end / kPerNs, rate});
    }
  return jobs;
}

}  // namespace orrery::sim
