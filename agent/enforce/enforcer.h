// The host's plan: takes it from the controller as a whole or not at all, keeps its lease, and writes to each process's
// table the part that is that process's. Owned by the agent's loop thread; nothing blocks. Times are CLOCK_MONOTONIC.
//
// A process gets an entry only for communicators it has announced itself (and those for any connection, communicator
// 0): a container cannot see what other jobs do. When the lease runs out every table is emptied: unmanaged mode.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/enforce/plan_entry.h"
#include "common/base/ip_address.h"
#include "common/msg/plan_messages.h"
#include "common/shm/plan_table.h"
#include "common/telemetry/metrics.h"

namespace orrery::enforce {

struct Limits {
  uint32_t flows_per_host = 16384;
  uint32_t entries_per_process = 1024;  // capacity of a process's table
};

class Enforcer {
 public:
  Enforcer(std::string host, const Limits& limits, std::function<bool(const IpAddress&)> is_local,
           telemetry::Metrics& metrics);

  // The answer for the controller. A refusal leaves everything as it was. Refused are: a plan of another host, a term
  // below the highest ever seen, a revision below the newest of the same term, and any flow make_entry() refuses.
  msg::Ack accept(const msg::HostPlan& plan, uint64_t now_ns);
  // Renews the lease of the plan in force. False (and nothing changes) when `lease` is about another one.
  bool renew(const msg::Lease& lease, uint64_t now_ns);
  // Forgets the plan in force if `lease` names it or a newer one.
  bool withdraw(const msg::Lease& lease);
  // The agent ends: processes are on their own at once.
  void withdraw_all() { revoke_all(); }
  // Withdraws an expired plan. Returns whether one was.
  bool expire(uint64_t now_ns);
  // Whether release offsets are to be ignored: the host's clock is out of its bound.
  void suspend_release(bool suspended, uint64_t now_ns);

  // `table` becomes the process's; the descriptor to hand over is table.fd().
  void attach(uint64_t process, shm::PlanTable table);
  void detach(uint64_t process);
  // The communicators the process has now.
  void set_communicators(uint64_t process, std::vector<uint64_t> comm_ids);

  // Whether the table of `process` has this flow, for a connection between these ends.
  bool is_planned(uint64_t process, uint64_t flow_id, const FiveTuple& tuple) const;
  bool in_force() const { return valid_until_ns_ != 0; }
  uint64_t valid_until_ns() const { return valid_until_ns_; }
  size_t entries() const { return entries_.size(); }
  // Entries of the plan in force; for the DSCP marks of the BPF program.
  const std::vector<orrery_plan_entry>& plan() const { return entries_; }

 private:
  struct Process {
    shm::PlanTable table;
    std::vector<uint64_t> comm_ids;  // sorted
    std::vector<orrery_plan_entry> entries;
    std::vector<uint32_t> by_flow_id;  // indices of entries, sorted
  };
  msg::Ack answer(const msg::HostPlan& plan, std::string refusal);
  Status check_order(const msg::HostPlan& plan) const;
  void publish(Process& process);
  void publish_all();
  void revoke_all();

  struct Series {
    telemetry::Counter& accepted;
    telemetry::Counter& refused;
    telemetry::Counter& expired;
    telemetry::Counter& renewed;
    telemetry::Counter& over_limit;
    telemetry::Gauge& entries;
    telemetry::Gauge& revision;
  };
  const std::string host_;
  const Limits limits_;
  const std::function<bool(const IpAddress&)> is_local_;
  Series series_;
  std::map<uint64_t, Process> processes_;
  std::vector<orrery_plan_entry> entries_;
  uint64_t highest_term_ = 0;
  uint64_t term_ = 0;
  uint64_t revision_ = 0;
  uint64_t valid_until_ns_ = 0;  // 0: no plan in force
  bool release_suspended_ = false;
};

}  // namespace orrery::enforce
