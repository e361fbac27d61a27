// All attached processes of the host, and the windows made of their reports.
//
// Owned by the agent's loop thread. A window is due when it holds something new, or when the last one is
// Cadence::heartbeat_ns old; that heartbeat states all live communicators again, because PUB loses what it sends before
// the controller listens.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agent/collect/process_collector.h"
#include "common/telemetry/metrics.h"

namespace orrery::collect {

class Collector {
 public:
  Collector(std::string host, const Limits& limits, const Cadence& cadence, HostView view, telemetry::Metrics& metrics);
  Collector(const Collector&) = delete;

  // The number the process has until it is gone; never used again. Errors: kExhausted, limits.processes are attached
  // already.
  Result<uint64_t> attach(shm::AgentSegment segment);
  void detach(uint64_t process, uint64_t now_ns, int64_t tai_minus_monotonic_ns);
  ProcessCollector::Outcome collect(uint64_t process, uint64_t now_ns, int64_t tai_minus_monotonic_ns);
  void mark_alive(uint64_t now_ns);

  bool window_due(uint64_t now_ns) const;
  // The window up to now, and the beginning of the next one.
  msg::IntentWindow take_window(uint64_t now_ns, int64_t tai_minus_monotonic_ns, const msg::ClockState& clock,
                                bool urgent);

  const ProcessCollector* find(uint64_t process) const;
  size_t size() const { return processes_.size(); }

 private:
  struct Totals {
    msg::Losses losses;
    uint64_t events = 0;
    uint64_t over_limit = 0;
    uint64_t moved = 0, deferred = 0, drained_early = 0, completion_errors = 0;  // of queue pairs
  };
  HostView with_claims(HostView view);
  static void add(Totals& totals, ProcessCollector& process);
  Totals totals();
  void update_metrics(const Totals& totals);

  struct Series {
    telemetry::Gauge& processes;
    telemetry::Gauge& communicators;
    telemetry::Gauge& flows;
    telemetry::Gauge& queue_pairs;
    telemetry::Gauge& clock_offset;
    telemetry::Gauge& clock_synchronized;
    telemetry::Counter& events;
    telemetry::Counter& dropped;
    telemetry::Counter& malformed;
    telemetry::Counter& over_limit;
    telemetry::Counter& moved;
    telemetry::Counter& deferred;
    telemetry::Counter& drained_early;
    telemetry::Counter& completion_errors;
    telemetry::Counter& windows;
    telemetry::Counter& urgent_windows;
  };
  const std::string host_;
  const Limits limits_;
  const Cadence cadence_;
  std::map<FlowKey, uint64_t> flow_owners_;  // processes by the flows they reported first
  const HostView view_;
  Series series_;
  std::map<uint64_t, std::unique_ptr<ProcessCollector>> processes_;
  Reports reports_;
  Totals gone_;       // of processes that have left
  Totals published_;  // at the last window
  uint64_t next_process_ = 1;
  uint64_t sequence_ = 0;
  uint64_t agent_start_tai_ns_ = 0;
  uint64_t window_start_ns_ = 0;
  uint64_t heartbeat_ns_ = 0;
};

}  // namespace orrery::collect
