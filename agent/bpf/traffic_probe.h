// What the kernel sees of the host's flows, and the DSCP marks it sets: loads host_traffic.bpf.c and attaches it to the
// interface of the training traffic. Optional: the agent works without it.
//
// Each feature is attached on its own and told in features(); the destructor detaches all. Filters left by an agent
// that was killed are replaced, not added to. Needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON. Owned by the agent's loop
// thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/abi/host_flow_abi.h"
#include "common/abi/plan_abi.h"
#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace orrery::bpf {

class TrafficProbe {
 public:
  // Errors: kInvalidArgument (no such interface), kUnavailable (the kernel or the agent's rights do not allow it, with
  // what to do).
  static Result<TrafficProbe> create(const std::string& interface);
  TrafficProbe(TrafficProbe&&) noexcept;
  TrafficProbe& operator=(TrafficProbe&&) = delete;
  ~TrafficProbe();

  // Of "bpf-flows", "bpf-dscp", "bpf-retransmits", those that are attached.
  const std::vector<std::string>& features() const { return features_; }
  // Totals of a flow that starts at this host; nothing when the interface has not carried it (or long ago).
  std::optional<orrery_host_flow> flow(const FiveTuple& tuple) const;
  // Marks the connections of those entries that ask for a DSCP, and no others, until `valid_until_ns`
  // (CLOCK_MONOTONIC).
  void set_marks(std::span<const orrery_plan_entry> plan, uint64_t valid_until_ns);

 private:
  struct Programs;
  explicit TrafficProbe(std::unique_ptr<Programs> programs);

  std::unique_ptr<Programs> programs_;
  std::vector<std::string> features_;
  std::vector<orrery_host_mark_key> marked_;
};

}  // namespace orrery::bpf
