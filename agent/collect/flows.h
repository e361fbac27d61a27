// The flows of one process: born and gone by event, their bytes by the counters in the segment, which are the process's
// and hostile.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/ip_address.h"
#include "common/msg/queue_pair.h"
#include "common/shm/agent_segment.h"

namespace orrery::collect {

// What makes a flow one flow. Queue pairs may share a five-tuple: their source ports are few.
struct FlowKey {
  FiveTuple tuple;
  uint32_t qpn = 0;  // 0: not a queue pair
  friend auto operator<=>(const FlowKey&, const FlowKey&) = default;
};

struct Flow {
  FiveTuple tuple;
  msg::QueuePair queue_pair;     // qpn 0: a connection, or a queue pair whose QP_READY has not come yet
  uint64_t flow_id = 0;          // of the plan, checked
  uint64_t claimed_flow_id = 0;  // as the process last said
  uint64_t comm_id = 0;          // of the communicator whose bytes it carried last
  uint64_t tx_bytes = 0;
  uint64_t rx_bytes = 0;
  uint64_t held_ns = 0;
  uint32_t bursts = 0;
  uint32_t generation = 0;
  uint8_t role = 0;
  bool told = false;     // its birth was reported, and it is claimed for the process
  bool changed = false;  // since it was last reported
  uint64_t born_ns = 0;
  FlowKey key() const { return {tuple, queue_pair.qpn}; }
};

// What the counters of one flow say has happened since they were read before.
struct Movement {
  bool sent = false;
  uint64_t first_tx_ns = 0;
  uint64_t last_tx_ns = 0;
};

class Flows {
 public:
  static FiveTuple tuple_of(const orrery_flow_event& event);

  // A slot still in use is taken over: the process lost the event of its end. Returns the flow that was there before.
  std::optional<Flow> birth(const orrery_flow_event& event);
  // QP_READY or QP_MOVED of `flow`: takes over what it says.
  static void take(Flow& flow, const orrery_qp_event& event);
  // Counters that went back are the process's fault and are ignored.
  static void update(Flow& flow, const orrery_qp_counters& counters);
  // Nothing when no such flow is known.
  std::optional<Flow> death(uint16_t slot, uint32_t generation);
  // Compares the slot's counters with the last ones; `now_ns` bounds the times. Nothing when nothing moved.
  static std::optional<Movement> update(Flow& flow, const shm::FlowSample& sample, uint64_t now_ns);

  Flow* find(uint16_t slot);
  void forget(uint16_t slot) { flows_.erase(slot); }
  std::unordered_map<uint16_t, Flow>& all() { return flows_; }
  const std::unordered_map<uint16_t, Flow>& all() const { return flows_; }
  size_t size() const { return flows_.size(); }

 private:
  std::unordered_map<uint16_t, Flow> flows_;  // by slot, so at most as many as the segment has slots
};

}  // namespace orrery::collect
