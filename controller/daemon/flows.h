// Flows that exist, as the agents of their senders report them. Memory is bounded; a report is believed only of a
// host's own address.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/abi/event_abi.h"
#include "common/base/ip_address.h"
#include "common/msg/intent_messages.h"
#include "controller/fabric/graph.h"

namespace orrery::daemon {

// Queue pairs may share a five-tuple: their source ports are few.
struct FlowKey {
  FiveTuple tuple;
  uint32_t qpn = 0;  // 0: a connection
  friend auto operator<=>(const FlowKey&, const FlowKey&) = default;
};

struct LiveFlow {
  FiveTuple tuple;
  std::optional<msg::QueuePair> queue_pair;
  uint64_t comm_id = 0;       // 0: of no communicator
  uint64_t plan_flow_id = 0;  // of the plan that chose its source port
  std::string host;
  uint64_t tx_bytes = 0;
  bool counted = false;  // tx_bytes so far are in sent_bytes(), or were sent before anybody looked
  uint64_t held_ns = 0;
  uint64_t weight_bytes = 0;  // what it sends in kWeightPeriodNs, rounded up to a power of two
  uint64_t period_start_ns = 0;
  uint64_t period_start_bytes = 0;
  // Cache of the path it takes, valid for one epoch of link states and rules.
  std::optional<fabric::Path> path;
  uint64_t path_epoch = 0;
  uint64_t doubtful_until_ns = 0;  // not 0: may have ended unheard (before a restart, in a lost window): gone unless
                                   // reported by then

  // Its host can send it on another way while it runs.
  bool movable() const { return queue_pair && (queue_pair->flags & ORRERY_QP_CAN_MOVE) != 0; }
};

class FlowBook {
 public:
  static constexpr uint64_t kWeightPeriodNs = 2'000'000'000;
  static constexpr uint64_t kRealBytes =
      64 * 1024;  // of a communicator's flow that counts: less is bootstrap and control
  static constexpr uint64_t kPlainRealBytes = 1 << 20;  // the same where no communicator is known

  explicit FlowBook(const fabric::Graph& fabric) : fabric_(fabric), sent_bytes_(fabric.nics().size()) {}

  // Whether the plan should be looked at again: a plain flow became real, changed its weight much, or went.
  bool on_report(const std::string& host, const msg::FlowReport& report, uint64_t now_ns);
  // A plain flow that the plan of the last run had.
  void restore(const FiveTuple& tuple, uint64_t weight_bytes, uint64_t now_ns);
  // Forgets doubtful flows that nobody reports. Whether there were plain ones among them.
  bool expire(uint64_t now_ns);
  // The same for all flows that these hosts, sorted by name, reported.
  bool forget_hosts(const std::vector<std::string>& hosts);
  // Reports of the host were lost: flows it says nothing of for a minute are gone.
  void doubt_host(const std::string& host, uint64_t now_ns);

  // Flows from `src` to `dst` with real bytes that belong to the communicator, or to any, the one that sent most first.
  std::vector<LiveFlow*> of_pair(std::optional<uint64_t> comm_id, const IpAddress& src, const IpAddress& dst);
  // All that have this five-tuple.
  std::vector<LiveFlow*> of_tuple(const FiveTuple& tuple);
  std::map<FlowKey, LiveFlow>& all() { return flows_; }
  const std::map<FlowKey, LiveFlow>& all() const { return flows_; }
  // Bytes that flows of each NIC were seen to send, by the index in Graph::nics(); what a flow had sent before its
  // first report is left out.
  const std::vector<uint64_t>& sent_bytes() const { return sent_bytes_; }
  static bool is_plain(const LiveFlow& flow) { return flow.comm_id == 0 && flow.weight_bytes != 0; }
  uint64_t refused() const { return refused_; }

 private:
  void forget_restored(const FlowKey& key);
  void count(const fabric::Nic& src, LiveFlow& flow, uint64_t tx_bytes);
  bool weigh(LiveFlow& flow, uint64_t now_ns);
  bool erase(std::map<FlowKey, LiveFlow>::iterator flow);

  const fabric::Graph& fabric_;
  std::map<FlowKey, LiveFlow> flows_;  // ordered by source and destination address first
  std::map<std::string, size_t> count_by_host_;
  std::vector<uint64_t> sent_bytes_;
  size_t doubtful_ = 0;  // at least as many as there are; exact after expire()
  uint64_t refused_ = 0;
};

}  // namespace orrery::daemon
