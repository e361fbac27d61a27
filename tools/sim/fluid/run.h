// One run of the flow-level engine: the loop, queue pairs, messages and steps.
//
// Within a group all flows have the same rate, so one counter says how far a flow that was there from the start has
// come; a message ends when the counter reaches the message's target. The targets of a group are a skew heap (Sleator
// and Tarjan 1986) over the queue pairs, which needs no memory beyond two links each.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "controller/fabric/graph.h"
#include "tools/sim/fluid/config.h"
#include "tools/sim/fluid/flow_groups.h"
#include "tools/sim/fluid/latency.h"
#include "tools/sim/fluid/shares.h"
#include "tools/sim/fluid/time_buckets.h"
#include "tools/sim/model/program.h"
#include "tools/sim/model/result.h"

namespace orrery::sim {

class FluidRun {
 public:
  FluidRun(const fabric::Graph& graph, const Program& program, const FluidConfig& config);
  RunResult run(const Watch& watch);

 private:
  struct GroupState {
    double sent_bits = 0;  // by one flow, since the group was last empty
    double rate = 0;
    Time since = 0;      // sent_bits is of this time
    double carried = 0;  // bits of all flows with the present parts
    uint32_t flows = 0;
    uint32_t first = kNone;  // queue pair whose message ends next
    bool touched = false;
  };
  struct QpState {
    double target = 0;
    uint32_t left = kNone, right = kNone;
    uint32_t sending = 0;  // into Program::qp_messages, relative to first_message
    uint32_t posted = 0;   // the same: how many of its messages may be sent
  };

  void start();
  void dispatch(uint32_t event);
  void finish_flows(uint32_t group);
  void flow_ends(uint32_t qp);
  void begin_message(uint32_t qp, double from_bits);
  void release_message(uint32_t message);
  void complete(const Successors& successors);
  void step_ready(uint32_t step);
  void finish_step(uint32_t step);
  void deliver(uint32_t message);
  void fault(uint32_t number, bool known);
  void advance(uint32_t group);
  void record(uint32_t group, Time from, Time to, double rate);
  void halve_waves();
  void settle(uint32_t group);
  void touch(uint32_t group);
  void update_rates();
  void schedule(uint32_t group);
  uint32_t merge(uint32_t a, uint32_t b);
  bool sooner(uint32_t a, uint32_t b) const;
  RunResult collect();

  const Program& program_;
  const FluidConfig& config_;
  Latency latency_;
  std::unique_ptr<Shares> shares_;
  Shares& rates_;
  FlowGroups paths_;
  std::vector<double> capacity_;
  std::vector<GroupState> groups_;
  std::vector<QpState> qps_;
  std::vector<uint32_t> pending_;  // by step
  // Deliveries by message, acknowledgements by message, steps, faults, knowledge of faults.
  TimeBuckets events_;
  TimeBuckets endings_;  // by group
  std::vector<uint32_t> touched_, moved_;
  std::vector<double> link_bits_;
  Time slice_;
  std::vector<std::vector<double>> waves_;  // bits, by link and slice
  RunResult result_;
  Time now_ = 0;
  bool capacity_changed_ = false;
};

}  // namespace orrery::sim
