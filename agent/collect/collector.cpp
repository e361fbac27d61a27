#include "agent/collect/collector.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/clock.h"

namespace orrery::collect {

Collector::Collector(std::string host, const Limits& limits, const Cadence& cadence, HostView view,
                     telemetry::Metrics& metrics)
    : host_(std::move(host)),
      limits_(limits),
      cadence_(cadence),
      view_(with_claims(std::move(view))),
      series_{
          metrics.gauge("orrery_collect_attached_processes", "Processes attached now."),
          metrics.gauge("orrery_collect_live_communicators", "Communicators announced and not gone."),
          metrics.gauge("orrery_collect_live_flows", "Flows born and not gone."),
          metrics.gauge("orrery_collect_live_queue_pairs", "Of the live flows: RDMA queue pairs."),
          metrics.gauge("orrery_collect_clock_offset_seconds",
                        "Offset of the host's clock from its master, as ptp4l says."),
          metrics.gauge("orrery_collect_clock_synchronized_state",
                        "1 while the clock follows a master within its bound or leads, else 0."),
          metrics.counter("orrery_collect_ring_events_total", "Events drained from the rings of all processes."),
          metrics.counter("orrery_collect_lost_events_total",
                          "Events and flows that processes could not report: full rings, too many threads or flows."),
          metrics.counter("orrery_collect_malformed_events_total", "Ring events refused by the checks."),
          metrics.counter("orrery_collect_over_limit_reports_total", "Reports dropped because a limit was reached."),
          metrics.counter("orrery_collect_moved_queue_pairs_total",
                          "Queue pairs that took another source port while they ran."),
          metrics.counter("orrery_collect_deferred_sends_total",
                          "Work requests held back for a release offset or pace before they were posted."),
          metrics.counter("orrery_collect_early_drained_sends_total",
                          "Of the deferred work requests: posted before their time, for lack of room, plan or agent."),
          metrics.counter("orrery_collect_completion_errors_total", "Work completions with an error status."),
          metrics.counter("orrery_collect_published_windows_total", "Intent windows made."),
          metrics.counter("orrery_collect_urgent_windows_total",
                          "Windows made at once because a communicator was announced.")},
      agent_start_tai_ns_(tai_now_ns()),
      window_start_ns_(monotonic_now_ns()) {}

// A process that could tell of another's flow could have it moved, or forgotten.
HostView Collector::with_claims(HostView view) {
  view.claim = [this](uint64_t process, const FlowKey& flow) {
    return flow_owners_.try_emplace(flow, process).first->second == process;
  };
  view.release = [this](uint64_t process, const FlowKey& flow) {
    const auto owner = flow_owners_.find(flow);
    if (owner != flow_owners_.end() && owner->second == process) flow_owners_.erase(owner);
  };
  return view;
}

Result<uint64_t> Collector::attach(shm::AgentSegment segment) {
  if (processes_.size() >= limits_.processes)
    return Error{ErrorCode::kExhausted,
                 fmt::format("{} processes are attached already; raise limits.processes_count", processes_.size())};
  const uint64_t process = next_process_++;
  processes_[process] = std::make_unique<ProcessCollector>(process, std::move(segment), limits_, cadence_, view_);
  reports_.processes = std::max(reports_.processes, static_cast<uint32_t>(processes_.size()));
  return process;
}

void Collector::detach(uint64_t process, uint64_t now_ns, int64_t tai_minus_monotonic_ns) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  found->second->finish(now_ns, tai_minus_monotonic_ns, reports_);
  add(gone_, *found->second);
  processes_.erase(found);
}

ProcessCollector::Outcome Collector::collect(uint64_t process, uint64_t now_ns, int64_t tai_minus_monotonic_ns) {
  const auto found = processes_.find(process);
  return found == processes_.end() ? ProcessCollector::Outcome{}
                                   : found->second->collect(now_ns, tai_minus_monotonic_ns, reports_);
}

void Collector::mark_alive(uint64_t now_ns) {
  for (auto& [number, process] : processes_) process->segment().mark_alive(now_ns);
}

const ProcessCollector* Collector::find(uint64_t process) const {
  const auto found = processes_.find(process);
  return found == processes_.end() ? nullptr : found->second.get();
}

bool Collector::window_due(uint64_t now_ns) const {
  const bool something = !reports_.communicators.empty() || !reports_.intents.empty() || !reports_.flows.empty();
  return something || now_ns - heartbeat_ns_ >= cadence_.heartbeat_ns;
}

void Collector::add(Totals& totals, ProcessCollector& process) {
  const auto saturate = [](uint64_t& sum, uint64_t more) {
    if (__builtin_add_overflow(sum, more, &sum)) sum = UINT64_MAX;
  };
  saturate(totals.losses.ring_dropped, process.counters().dropped);
  saturate(totals.losses.no_ring, process.counters().no_ring);
  saturate(totals.losses.no_slot, process.counters().no_slot);
  saturate(totals.losses.malformed, process.counters().malformed);
  totals.events += process.counters().events;
  totals.over_limit += process.counters().over_limit;
  totals.moved += process.counters().moved;
  saturate(totals.deferred, process.counters().deferred);
  saturate(totals.drained_early, process.counters().drained_early);
  saturate(totals.completion_errors, process.counters().completion_errors);
}

Collector::Totals Collector::totals() {
  Totals sum = gone_;
  for (auto& [number, process] : processes_) add(sum, *process);
  sum.over_limit += reports_.over_limit;
  return sum;
}

void Collector::update_metrics(const Totals& now) {
  const auto grow = [](telemetry::Counter& counter, uint64_t before, uint64_t after) {
    if (after > before) counter.Increment(static_cast<double>(after - before));
  };
  const auto lost = [](const msg::Losses& l) {
    return static_cast<double>(l.ring_dropped) + static_cast<double>(l.no_ring) + static_cast<double>(l.no_slot);
  };
  grow(series_.events, published_.events, now.events);
  grow(series_.malformed, published_.losses.malformed, now.losses.malformed);
  grow(series_.over_limit, published_.over_limit, now.over_limit);
  grow(series_.moved, published_.moved, now.moved);
  grow(series_.deferred, published_.deferred, now.deferred);
  grow(series_.drained_early, published_.drained_early, now.drained_early);
  grow(series_.completion_errors, published_.completion_errors, now.completion_errors);
  if (const double more = lost(now.losses) - lost(published_.losses); more > 0) series_.dropped.Increment(more);
  size_t communicators = 0, flows = 0, queue_pairs = 0;
  for (const auto& [number, process] : processes_) {
    communicators += process->communicators().size();
    flows += process->flows().size();
    queue_pairs += process->queue_pairs();
  }
  series_.processes.Set(static_cast<double>(processes_.size()));
  series_.communicators.Set(static_cast<double>(communicators));
  series_.flows.Set(static_cast<double>(flows));
  series_.queue_pairs.Set(static_cast<double>(queue_pairs));
}

msg::IntentWindow Collector::take_window(uint64_t now_ns, int64_t tai_minus_monotonic_ns, const msg::ClockState& clock,
                                         bool urgent) {
  if (now_ns - heartbeat_ns_ >= cadence_.heartbeat_ns) {
    heartbeat_ns_ = now_ns;
    for (const auto& [number, process] : processes_) process->restate(reports_);
  }
  const Totals sum = totals();
  update_metrics(sum);
  series_.clock_offset.Set(static_cast<double>(clock.offset_ns) * 1e-9);
  series_.clock_synchronized.Set(clock.synchronized ? 1 : 0);
  published_ = sum;
  gone_.over_limit += reports_.over_limit;
  msg::IntentWindow window;
  window.host = host_;
  window.sequence = ++sequence_;
  window.start_tai_ns = static_cast<uint64_t>(static_cast<int64_t>(window_start_ns_) + tai_minus_monotonic_ns);
  window.length_ns = now_ns - window_start_ns_;
  window.urgent = urgent;
  window.communicators = std::move(reports_.communicators);
  window.intents = std::move(reports_.intents);
  window.flows = std::move(reports_.flows);
  window.clock = clock;
  window.losses = sum.losses;
  window.agent_start_tai_ns = agent_start_tai_ns_;
  reports_ = Reports{.window = sequence_, .processes = static_cast<uint32_t>(processes_.size())};
  window_start_ns_ = now_ns;
  series_.windows.Increment();
  if (urgent) series_.urgent_windows.Increment();
  return window;
}

}  // namespace orrery::collect
