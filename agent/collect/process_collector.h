// Turns what one attached process writes into its segment into reports for the controller.
//
// Owned by the agent's loop thread. Nothing in it blocks; its memory is bounded by Limits and the segment's shape.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "agent/collect/collectives.h"
#include "agent/collect/communicators.h"
#include "agent/collect/flows.h"
#include "agent/collect/limits.h"
#include "common/msg/intent_messages.h"
#include "common/shm/agent_segment.h"

namespace orrery::collect {

// What the agent knows of its own host and a process cannot be believed about.
struct HostView {
  // Where the ranks' traffic goes.
  std::function<IpAddress()> nic_address = [] { return IpAddress(); };
  // Flows that do not start here, or also end here, are not reported.
  std::function<bool(const IpAddress&)> is_local = [](const IpAddress&) { return false; };
  // Whether `flow_id` is in the plan of `process` for connections such as this one.
  std::function<bool(uint64_t process, uint64_t flow_id, const FiveTuple&)> is_planned =
      [](uint64_t, uint64_t, const FiveTuple&) { return false; };
  // Whether the flow may be reported by `process`: one flow is one process's, the first that tells of it, until
  // release().
  std::function<bool(uint64_t process, const FlowKey&)> claim = [](uint64_t, const FlowKey&) { return true; };
  std::function<void(uint64_t process, const FlowKey&)> release = [](uint64_t, const FlowKey&) {};
  // Packets of the flow that the kernel sent again, 0 where that is not watched.
  std::function<uint32_t(const FiveTuple&)> retransmits = [](const FiveTuple&) { return uint32_t{0}; };
};

// Where reports go; bounded by Limits, what does not fit is counted.
struct Reports {
  uint64_t window = 0;     // another number for each window
  uint32_t processes = 1;  // that share the window
  std::vector<msg::CommunicatorEvent> communicators;
  std::vector<msg::Intent> intents;
  std::vector<msg::FlowReport> flows;
  uint64_t over_limit = 0;
};

class ProcessCollector {
 public:
  struct Outcome {
    bool active = false;                 // something moved or was called
    bool announced = false;              // a communicator was announced: tell the controller at once
    bool communicators_changed = false;  // the set of communicators is another one: enforce needs to know
    bool more = false;                   // events still wait
  };
  struct Counters {
    uint64_t events = 0;
    uint64_t malformed = 0;
    uint64_t dropped = 0, no_ring = 0, no_slot = 0;  // lost by the process: shm::DrainResult
    uint64_t over_limit = 0;
    uint64_t moved = 0;                                               // queue pairs that took another source port
    uint64_t deferred = 0, drained_early = 0, completion_errors = 0;  // of queue pairs: msg::QueuePair
  };

  ProcessCollector(uint64_t process, shm::AgentSegment segment, const Limits& limits, const Cadence& cadence,
                   const HostView& host);

  // `tai_minus_monotonic_ns` turns the process's times into TAI.
  Outcome collect(uint64_t now_ns, int64_t tai_minus_monotonic_ns, Reports& reports);
  // The process has gone: its last events, then the end of all its flows and communicators.
  void finish(uint64_t now_ns, int64_t tai_minus_monotonic_ns, Reports& reports);
  // All live communicators as announcements, for a controller that started later than they did.
  void restate(Reports& reports);

  uint64_t process() const { return process_; }
  const Communicators& communicators() const { return communicators_; }
  const Flows& flows() const { return flows_; }
  size_t queue_pairs() const;
  const Counters& counters() const { return counters_; }
  shm::AgentSegment& segment() { return segment_; }

 private:
  struct Tick;
  void handle(const orrery_event& event, Tick& tick);
  void handle_communicator(const orrery_event& event, Tick& tick);
  void handle_gone(uint64_t comm_id, Tick& tick);
  void handle_collective(const orrery_event& event, Tick& tick);
  void handle_birth(const orrery_event& event, Tick& tick);
  void handle_queue_pair(const orrery_event& event, Tick& tick);
  void handle_death(const orrery_event& event, Tick& tick);
  void handle_device_traffic(uint64_t comm_id, Tick& tick);
  void read_flow(uint16_t slot, Flow& flow, Tick& tick);
  void absorb(Flow& flow, const shm::FlowSample& sample, Tick& tick);
  void absorb(uint16_t slot, Flow& flow);
  // Claims the flow and reports its birth. False, and the flow is forgotten: it is another process's.
  bool tell(uint16_t slot, Flow& flow, Tick& tick);
  void untell(Flow& flow, Tick& tick);
  void tell_the_late(Tick& tick);
  void report_ended(Tick& tick);
  void report_progress(Tick& tick);
  void report_communicator(msg::CommunicatorEvent::Kind kind, const Communicator& communicator, Reports& reports);
  void report_intent(const Collective& collective, Tick& tick);
  void report_flow(msg::FlowReport::Kind kind, const Flow& flow, Tick& tick);

  const uint64_t process_;
  shm::AgentSegment segment_;
  const Limits& limits_;
  const Cadence& cadence_;
  const HostView& host_;
  Communicators communicators_;
  Collectives collectives_;
  Flows flows_;
  Counters counters_;
  // What it has put into the present window.
  struct Share {
    uint64_t window = UINT64_MAX;
    uint32_t communicators = 0, intents = 0, flows = 0;
  };
  bool admit(uint32_t Share::*used, uint32_t limit, Reports& reports);

  Share share_;
  std::vector<orrery_event> events_;  // kept for its capacity
  uint64_t last_progress_ns_ = 0;
};

}  // namespace orrery::collect
