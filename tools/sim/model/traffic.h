// Traffic: what jobs send and what each transfer waits for, without a word about paths. Workloads make it, schemes give
// it routes, lowering.h makes the two into a program for an engine.
//
// Hosts are indices into fabric::Graph::nics(). A task waits for everything that leads to it, then for its delay, then
// starts its transfer, or is the end of a computation. What leads to a task ends on the task's own host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/sim/model/types.h"

namespace orrery::sim {

// One direction between two hosts for one channel of a communicator: what becomes a connection.
struct Flow {
  uint32_t job = 0;
  uint32_t src = 0;
  uint32_t dst = 0;
  uint32_t channel = 0;
  uint32_t communicator = 0;  // of the job; its flows send together: planner::FlowDemand::comm_id
  uint32_t phase = 0;     // flows of different phases of a job never send at the same time: planner::FlowDemand::phase
  bool exchange = false;  // planner::FlowDemand::exchange
};

struct Transfer {
  uint32_t flow = 0;
  uint64_t bytes = 0;
};

struct Task {
  uint32_t host = 0;
  Time delay = 0;
  uint32_t transfer = kNone;
  bool opens_collective = false;  // its transfer is the flow's first of a collective: release offsets apply to it
};

// A round (training iteration) of a job begins when the first of its opening tasks is done and ends with the last of
// its closing ones.
struct Round {
  uint32_t job = 0;
  std::vector<uint32_t> opening;
  std::vector<uint32_t> closing;
};

struct Edge {
  uint32_t from = 0;
  uint32_t to = 0;  // a task
};

struct Traffic {
  std::vector<std::string> jobs;
  uint32_t communicators = 0;  // numbers given so far
  std::vector<Flow> flows;
  std::vector<Transfer> transfers;  // of one flow: sent in this order
  std::vector<Task> tasks;
  std::vector<Edge> after_task, after_delivered, after_acknowledged;  // from a task, a transfer, a transfer
  std::vector<Round> rounds;

  uint32_t add_flow(const Flow& flow);
  uint32_t add_transfer(uint32_t flow, uint64_t bytes);
  // The task that starts `transfer`, on its sender.
  uint32_t add_send(uint32_t transfer, Time delay = 0, bool opens_collective = false);
  uint32_t add_computation(uint32_t host, Time duration);
};

// Every index in range, every edge on one host, every transfer started by exactly one task, no task that waits for
// itself. Errors: kInvalidArgument names the first fault.
Status check(const Traffic& traffic, uint32_t hosts);

// Tasks that wait for each other in a circle, each for the next; empty when there is no such circle. Precondition:
// every index is in range.
std::vector<uint32_t> circle_of(const Traffic& traffic);

struct RoundTimes {
  uint32_t job = 0;
  Time begin = kNever;  // kNever: did not happen
  Time end = kNever;
};
// `task_done_at` is RunResult::step_done_at: lowering keeps the numbers of tasks.
std::vector<RoundTimes> round_times(const Traffic& traffic, const std::vector<Time>& task_done_at);

}  // namespace orrery::sim
