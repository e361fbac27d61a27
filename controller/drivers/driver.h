// A driver carries a plan out on one kind of fabric element. The controller's rollout calls it; it decides nothing.
//
// Threading: called from the controller's thread only. No call blocks: work that needs an answer reports through the
// callback given to apply(), from poll() or from a later call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/fabric/graph.h"
#include "controller/planner/planner.h"

namespace orrery::drivers {

struct Capabilities {
  bool applies = true;            // false: plans are made and shown, neither network nor hosts are told
  bool exact_path = false;        // can pin a flow to any path
  bool moves_live_flows = false;  // a flow that exists can change its path
  bool telemetry = false;
  bool local_reroute = false;
  uint32_t table_size = 0;  // rules per switch, 0: no table
};

// A plan in full, as rollout hands it to drivers.
struct Flow {
  uint64_t flow_id = 0;
  uint64_t comm_id = 0;
  IpAddress src;
  IpAddress dst;
  FiveTuple tuple;  // ports 0 until the flow is born
  uint8_t protocol = 6;
  uint16_t ordinal = 0xffff;  // ORRERY_PLAN_ANY_ORDINAL
  fabric::Path path;
  std::vector<fabric::Path> backups;
  uint64_t release_offset_ns = 0;
  uint64_t pace_bps = 0;
};

struct Revision {
  uint64_t term = 0;
  uint64_t number = 0;
  friend auto operator<=>(const Revision&, const Revision&) = default;
};

// What a host must do for a flow to take its path: the driver's share of the host's plan.
struct HashHop {
  uint32_t seed = 0;
  uint16_t group_size = 0;
  uint16_t member = 0;
  uint8_t hash_function = 0;
};
struct HostDirective {
  std::vector<HashHop> hops;
  uint16_t src_port_first = 0;
  uint16_t src_port_last = 0;
  uint16_t src_port_mask = 0;
  uint16_t src_port_value = 0;
};

using Completion = std::function<void(Status)>;

class SwitchEvents;  // switch_link.h

class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;
  // Fills what the sending host must do for `flow`; empty when the network alone does it. kRefused when the path cannot
  // be had.
  virtual Result<HostDirective> direct(const Flow& flow) = 0;
  // Makes the network's share of the plan true (the whole plan, replacing the last); `done` is called exactly once.
  // On failure the elements are back at the previous revision, or at none.
  virtual void apply(Revision revision, const std::vector<Flow>& flows, uint64_t lease_ns, Completion done) = 0;
  virtual void renew(Revision revision, uint64_t lease_ns) = 0;
  virtual void withdraw() = 0;

  // Called at least every 100 ms with CLOCK_MONOTONIC: where waiting for answers times out and idle elements are
  // tended.
  virtual void poll(uint64_t now_ns) { static_cast<void>(now_ns); }
  // The path this tuple takes now by what apply() made true; nothing: the driver has no say, the fabric hashes it.
  virtual std::optional<fabric::Path> path_of(const FiveTuple& tuple) const {
    static_cast<void>(tuple);
    return std::nullopt;
  }
  // What decides for this tuple at switch `at`, for people ("rule 12"); nothing: the fabric's hash.
  virtual std::optional<std::string> decided_by(fabric::NodeId at, const FiveTuple& tuple) const {
    static_cast<void>(at), static_cast<void>(tuple);
    return std::nullopt;
  }
  // Where the api delivers what switches say; null when the driver has no business with them.
  virtual SwitchEvents* switch_events() { return nullptr; }
};

}  // namespace orrery::drivers
